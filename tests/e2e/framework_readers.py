"""What a framework understands of files that `planner emit` writes, by its own code, in the planner's
words. One JSON list, an object for each file. usage: framework_readers.py FRAMEWORK FILE...

Exit 77: the framework is not there. Where its code asks about a GPU, or imports a package that only works
on one, a stand-in answers. DeepSpeed trains three steps on the ranks that torchrun starts; a configuration of more ranks is read alone."""
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types


class StandIn(types.ModuleType):
    """A package for GPUs alone: any name of it is an empty class; one in small letters, a module."""

    def __getattr__(self, name):
        if name == "__version__":
            return "2.8.0"
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].islower():
            return importlib.import_module(f"{self.__name__}.{name}")
        return type(name, (), {"apply": None})


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, *packages):
        self.packages = packages

    def find_spec(self, name, path, target=None):
        own = name.split(".")[0] in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if own else None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def yaml_of(file):
    import yaml
    with open(file) as text:
        return yaml.safe_load(text)


def accelerate():
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils import FullyShardedDataParallelPlugin
    from accelerate.utils.launch import prepare_multi_gpu_env
    import torch
    from torch.distributed.fsdp import MixedPrecisionPolicy
    at_start = dict(os.environ)

    def read(file):
        os.environ.clear()
        os.environ.update(at_start)      # without what the file before set
        args = launch_command_parser().parse_args(["--config_file", file, "train.py"])
        args, _, _ = _validate_launch_command(args)
        env = prepare_multi_gpu_env(args)
        os.environ.update(env)
        fsdp = FullyShardedDataParallelPlugin()
        # A policy that the script gives stands, as the note of the file counts on.
        own = FullyShardedDataParallelPlugin(mixed_precision_policy=MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
        own.set_mixed_precision(args.mixed_precision)
        shards = int(env.get("PARALLELISM_CONFIG_DP_SHARD_SIZE", args.num_processes))
        return {"gpus": args.num_processes, "precision": args.mixed_precision, "version": fsdp.fsdp_version,
                "shards": shards, "reshards": fsdp.reshard_after_forward,
                "recomputes": fsdp.activation_checkpointing,
                "sums_wider": own.mixed_precision_policy.reduce_dtype == torch.float32,
                "offloads": type(fsdp.cpu_offload).__name__ == "CPUOffloadPolicy"}
    return read


def deepspeed():
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed as ds
    import torch
    import torch.distributed as dist
    from deepspeed.runtime.config import DeepSpeedConfig

    def of_more_ranks(config, ranks):
        mesh = types.SimpleNamespace(get_data_parallel_world_size=lambda: ranks)
        c = DeepSpeedConfig(config, mpu=mesh)
        zero = c.zero_config
        return {"gpus": ranks, "stage": int(zero.stage), "global_batch": c.train_batch_size,
                "micro_batch": c.train_micro_batch_size_per_gpu, "grad_accum": c.gradient_accumulation_steps,
                "clip": c.gradient_clipping, "offloads": zero.offload_param is not None}

    def read(file):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 32))
        with open(file) as text:
            config = json.load(text)
        ranks = config["train_batch_size"] // (config["train_micro_batch_size_per_gpu"] *
                                               config["gradient_accumulation_steps"])
        if ranks != dist.get_world_size():
            return of_more_ranks(config, ranks)
        engine, _, _, _ = ds.initialize(model=model, model_parameters=model.parameters(), config=config)
        samples = torch.randn(engine.train_micro_batch_size_per_gpu(), 32)
        losses = []
        for _ in range(3 * engine.gradient_accumulation_steps()):
            loss = (engine(samples.to(next(engine.parameters()).dtype)).float() ** 2).mean()
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        return {"gpus": dist.get_world_size(), "stage": engine.zero_optimization_stage(),
                "global_batch": engine.train_batch_size(), "micro_batch": engine.train_micro_batch_size_per_gpu(),
                "grad_accum": engine.gradient_accumulation_steps(), "clip": engine.gradient_clipping(),
                "steps": engine.global_steps, "falls": losses[-1] < losses[0]}

    ds.init_distributed("gloo")
    return read


def torchtitan():
    from torchtitan.config import ConfigManager

    def read(file):
        folder, module = os.path.split(os.path.abspath(file))
        sys.path.insert(0, folder)
        c = ConfigManager().parse_args(["--module", module.removesuffix(".py"), "--config", "planned"])
        import torch
        model = c.model_spec.model
        model.update_from_config(config=c)
        with torch.device("meta"):
            parameters = sum(p.numel() for p in model.build().parameters())
        p, t = c.parallelism, c.training
        staged = p.pipeline_parallel_degree > 1
        return {"replicas": p.data_parallel_replicate_degree, "shards": p.data_parallel_shard_degree,
                "tensor": p.tensor_parallel_degree, "pipeline": p.pipeline_parallel_degree,
                "micro_batch": p.pipeline_parallel_microbatch_size if staged else t.local_batch_size,
                "global_batch": t.global_batch_size, "seq_len": t.seq_len, "clip": t.max_norm,
                "chunks": len(p.module_fqns_per_model_part or [[]]), "parameters": parameters,
                "recomputes": type(c.activation_checkpoint).__qualname__.startswith("FullAC")}
    return read


def axolotl():
    from axolotl.utils.schemas.config import AxolotlInputConfig

    def read(file):
        c = AxolotlInputConfig(**yaml_of(file)).model_dump()
        return {"micro_batch": c["micro_batch_size"], "grad_accum": c["gradient_accumulation_steps"],
                "seq_len": c["sequence_len"], "clip": c["max_grad_norm"], "lora_rank": c["lora_r"] or 0,
                "four_bits": bool(c["load_in_4bit"]), "recomputes": bool(c["gradient_checkpointing"])}
    return read


def llama_factory():
    os.environ["DISABLE_VERSION_CHECK"] = "1"
    from llamafactory.hparams.parser import _parse_train_args

    def read(file):
        _, _, training, tuning, _ = _parse_train_args({**yaml_of(file), "use_cpu": True})
        lora = tuning.finetuning_type == "lora"
        return {"micro_batch": training.per_device_train_batch_size,
                "grad_accum": training.gradient_accumulation_steps, "clip": training.max_grad_norm,
                "lora_rank": tuning.lora_rank if lora else 0}
    return read


def nanotron():
    sys.meta_path.insert(0, StandIns("flash_attn"))
    from nanotron.config import get_config_from_file

    def read(file):
        c = get_config_from_file(file)
        p, t = c.parallelism, c.tokens
        return {"data": p.dp, "tensor": p.tp, "pipeline": p.pp, "micro_batch": t.micro_batch_size,
                "grad_accum": t.batch_accumulation_per_replica, "seq_len": t.sequence_length,
                "clip": c.optimizer.clip_grad or 0, "stage": c.optimizer.zero_stage,
                "layers": c.model.model_config.num_hidden_layers}
    return read


def stand_in_gpu():
    """What Megatron Core asks about GPUs, answered for an H100; and a name of Python 3.12 that it takes."""
    import typing

    import torch
    import typing_extensions
    if not hasattr(typing, "override"):
        typing.override = typing_extensions.override
    gpu = types.SimpleNamespace(major=9, minor=0, name="H100", total_memory=80 << 30, multi_processor_count=132)
    torch.cuda.get_device_properties = lambda *_: gpu
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.device_count = lambda: 8
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"


def megatron_bridge():
    """Of checkouts in PYTHONPATH: Megatron-Bridge's src, and Megatron-LM. FILE: a recipe with planned(); beside it
    the number of ranks."""
    import copy
    import runpy

    import torch
    stand_in_gpu()
    torch.cuda.current_device = lambda: "meta"       # rotations of latent attention
    sys.meta_path.insert(0, StandIns("transformer_engine", "nvidia_resiliency_ext", "modelopt"))

    # Megatron looks whether it takes these.
    def adam(params, master_weight_dtype, exp_avg_dtype, exp_avg_sq_dtype, use_decoupled_grad):
        pass
    importlib.import_module("transformer_engine.pytorch.optimizers").FusedAdam = adam
    from megatron.bridge.training.config import runtime_config_update
    from megatron.core import parallel_state
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec
    from megatron.core.num_microbatches_calculator import (destroy_num_microbatches_calculator,
                                                            get_num_microbatches, init_num_microbatches_calculator)
    from megatron.core.optimizer_param_scheduler import OptimizerParamScheduler
    from megatron.core.process_groups_config import ProcessGroupCollection
    from megatron.core.transformer import transformer_block
    transformer_block.get_cpu_offload_context = None     # Transformer Engine's
    at_start = dict(os.environ)

    def own_layers(model, vp_stage=None):
        """Megatron's own layers. Their attention has no parameters but sinks, and the one for latents is
        Transformer Engine's: it is left out where there are no sinks."""
        spec = get_gpt_decoder_block_spec(model, False, model.normalization, vp_stage=vp_stage)
        for layer in spec.layer_specs:
            if model.softmax_type == "vanilla":
                layer.submodules.self_attention.submodules.core_attention = torch.nn.Identity
        return spec

    def count(model):
        """Parameters of the model that its provider builds, whole on one rank and without tensors' memory. Its
        layers are Megatron's own, as Transformer Engine's need a GPU; one module for each expert."""
        model.tensor_model_parallel_size = model.pipeline_model_parallel_size = model.context_parallel_size = 1
        model.expert_model_parallel_size = model.expert_tensor_parallel_size = 1
        model.virtual_pipeline_model_parallel_size = model.pipeline_model_parallel_layout = None
        model.sequence_parallel = model.tp_comm_overlap = model.overlap_p2p_comm = False
        model.moe_grouped_gemm = model.persist_layer_norm = model.gradient_accumulation_fusion = False
        model.recompute_granularity = model.recompute_method = model.recompute_num_layers = None
        model.recompute_modules = None
        model.moe_token_dispatcher_type = "allgather"      # the others start streams
        model.mtp_num_layers = None              # the plan's count has none
        model.use_cpu_initialization = model.init_model_with_meta_device = True
        model.perform_initialization = False
        model.transformer_layer_spec = own_layers
        model.finalize()
        torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())
        parallel_state.initialize_model_parallel()
        model._pg_collection = ProcessGroupCollection.use_mpu_process_groups()
        built = model.provide(pre_process=True, post_process=True)
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()    # the next file is of other ranks
        return sum(p.numel() for p in built.parameters())

    def read(file):
        os.environ.clear()
        os.environ.update(at_start)          # without what the file before set
        with open(file.removesuffix(".py") + ".ranks") as text:
            ranks = text.read()
        os.environ.update(WORLD_SIZE=ranks, RANK="0", LOCAL_RANK="0")
        c = runpy.run_path(file)["planned"]()
        whole = copy.deepcopy(c.model)
        runtime_config_update(c)             # pretrain() does this first
        m, o, t, s = c.model, c.optimizer, c.train, c.scheduler
        # What pretrain() goes on to do, as far as no GPU is needed.
        destroy_num_microbatches_calculator()
        init_num_microbatches_calculator(0, t.rampup_batch_size, t.global_batch_size, t.micro_batch_size,
                                         c.data_parallel_size, t.decrease_batch_size_if_needed)
        OptimizerParamScheduler(
            types.SimpleNamespace(param_groups=[]), init_lr=s.lr_warmup_init, max_lr=o.lr, min_lr=o.min_lr,
            lr_warmup_steps=s.lr_warmup_steps, lr_decay_steps=s.lr_decay_steps, lr_decay_style=s.lr_decay_style,
            start_wd=s.start_weight_decay, end_wd=s.end_weight_decay, wd_incr_steps=s.wd_incr_steps,
            wd_incr_style=s.weight_decay_incr_style)
        said = {"data": c.data_parallel_size, "tensor": m.tensor_model_parallel_size,
                "pipeline": m.pipeline_model_parallel_size, "context": m.context_parallel_size,
                "expert": m.expert_model_parallel_size, "virtual_stages": m.virtual_pipeline_model_parallel_size or 1,
                "micro_batch": t.micro_batch_size, "global_batch": t.global_batch_size,
                "grad_accum": get_num_microbatches(), "seq_len": m.seq_length, "layers": m.num_layers,
                "clip": o.clip_grad, "experts": m.num_moe_experts or 0,
                "precision": "fp8" if m.fp8 else "bf16" if m.bf16 else "fp16" if m.fp16 else "fp32",
                "recomputes": m.recompute_granularity == "full" and m.recompute_method == "uniform" and
                m.recompute_num_layers == 1,
                "divides_optimizer": o.use_distributed_optimizer and c.ddp.use_distributed_optimizer}
        whole.vocab_size = c.tokenizer.vocab_size      # without the padding of tensor ranks, as the plan counts
        # Latents of keys alone have a layer of Transformer Engine.
        if not getattr(whole, "multi_latent_attention", False) or whole.q_lora_rank is not None:
            said["parameters"] = count(whole)
        return said
    return read


def megatron():
    """FILE: the words that torchrun is given, as JSON. Of a checkout in PYTHONPATH."""
    stand_in_gpu()
    from megatron.training.arguments import parse_args, validate_args

    def read(file):
        with open(file) as text:
            words = json.load(text)
        per_node = int(words[words.index("--nproc_per_node") + 1])
        nodes = int(words[words.index("--nnodes") + 1]) if "--nnodes" in words else 1
        os.environ.update(WORLD_SIZE=str(per_node * nodes), RANK="0", LOCAL_RANK="0")
        sys.argv = words[words.index("pretrain_gpt.py"):]
        a = validate_args(parse_args())
        return {"data": a.data_parallel_size, "tensor": a.tensor_model_parallel_size,
                "pipeline": a.pipeline_model_parallel_size, "context": a.context_parallel_size,
                "virtual_stages": a.virtual_pipeline_model_parallel_size or 1, "layers": a.num_layers,
                "micro_batch": a.micro_batch_size, "global_batch": a.global_batch_size,
                "seq_len": a.seq_length, "clip": a.clip_grad, "experts": a.num_experts or 0,
                "expert": a.expert_model_parallel_size, "divides_optimizer": a.use_distributed_optimizer}
    return read


READERS = {"accelerate": accelerate, "deepspeed": deepspeed, "torchtitan_0.3": torchtitan, "axolotl": axolotl,
           "llama_factory": llama_factory, "nanotron": nanotron, "megatron": megatron,
           "megatron_bridge": megatron_bridge}
if __name__ == "__main__":
    try:
        read = READERS[sys.argv[1]]()
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(77)
    understood = [read(file) for file in sys.argv[2:]]
    if os.environ.get("RANK", "0") == "0":
        print("\n" + json.dumps(understood))
