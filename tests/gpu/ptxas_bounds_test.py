#!/usr/bin/env python3
"""The launcher that bounds what kernels take, with a compiler that says what a test wants.

usage: ptxas_bounds_test.py LAUNCHER TABLE
"""
import os
import subprocess
import sys
import tempfile
import unittest

LAUNCHER, TABLE = sys.argv[1:3]
NAME = "_ZN4exec4cuda12_GLOBAL__N_14turnIfEEvPT_l"  # void exec::cuda::(anonymous namespace)::turn<float>(float*, long)


def said(registers, stack=0, spills=0, architecture="sm_90", name=NAME):
    return f"""ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{name}' for '{architecture}'
ptxas info    : Function properties for {name}
    {stack} bytes stack frame, {spills} bytes spill stores, 0 bytes spill loads
ptxas info    : Used {registers} registers, used 0 barriers
"""


def ptx(accesses, name=NAME):
    """Of one kernel; accesses: of global memory, as `ld.global.v4.u32`."""
    return f".visible .entry {name}(\n\t.param .u64 p\n)\n{{\n" + "".join(f"\t{a} x;\n" for a in accesses) + "}\n"


WIDE = ("ld.global.nc.v4.u32", "st.global.v2.f64")


class Launcher(unittest.TestCase):
    def launched(self, text, source="attention.cu", table=None, code=0, more=("-c",), c="int x;", kept=ptx(WIDE)):
        """(exit code, what it told, whether the object is there)"""
        with tempfile.TemporaryDirectory() as folder:
            compiler = os.path.join(folder, "nvcc")
            with open(compiler, "w") as file:
                file.write(f"#!/bin/sh\ncat >&2 <<'EOF'\n{text}EOF\necho '{c}' | cc -x c -c - -o {folder}/x.o\n"
                           "while [ $# -gt 1 ] && [ \"$1\" != --keep-dir ]; do shift; done\n"
                           f"[ \"$1\" != --keep-dir ] || cat >\"$2/x.ptx\" <<'EOF'\n{kept}EOF\nexit {code}\n")
            os.chmod(compiler, 0o755)
            if table is not None:
                with open(os.path.join(folder, "table"), "w") as file:
                    file.write(table)
            done = subprocess.run([sys.executable, LAUNCHER, TABLE if table is None else os.path.join(folder, "table"),
                                   compiler, source, *more, "-o", f"{folder}/x.o"], stderr=subprocess.PIPE, text=True)
            return done.returncode, done.stderr, os.path.exists(f"{folder}/x.o")

    def test_what_the_table_allows_compiles_in_silence(self):
        self.assertEqual(self.launched(said(32, stack=40)), (0, "", True))
        self.assertEqual(self.launched(said(80), "norm.cu"), (0, "", True))

    def test_more_registers_stack_or_any_spill_fail(self):
        for text, word in ((said(41), "41 registers"), (said(32, stack=48), "a stack of 48 bytes"),
                           (said(32, spills=4), "spills 4 bytes"),
                           (said(20, spills=4, architecture="sm_80"), "spills 4 bytes on sm_80")):
            code, told, kept = self.launched(text)
            self.assertEqual((code, kept), (1, False))
            self.assertIn("attention.cu:turn", told)
            self.assertIn(word, told)

    def test_a_kernel_without_the_accesses_that_the_table_asks_for_fails(self):
        table = "* 80 0 both\n"
        self.assertEqual(self.launched(said(20), table=table), (0, "", True))
        for accesses, word in ((WIDE[:1], "no st.global of 16 bytes"), (WIDE[1:], "no ld.global of 16 bytes"),
                               (("ld.global.v2.u32", "st.global.v4.u16"), "of 16 bytes")):
            code, told, there = self.launched(said(20), table=table, kept=ptx(accesses))
            self.assertEqual((code, there), (1, False))
            self.assertIn(f"attention.cu:turn has {word}" if word[0] == "n" else word, told)
        self.assertEqual(self.launched(said(20), table="* 80 0 loads\n", kept=ptx(WIDE[:1])), (0, "", True))
        self.assertIn("kept no PTX", self.launched(said(20), kept="")[1])

    def test_host_code_that_calls_the_device_fails(self):
        code, told, kept = self.launched(said(20), c="void exit(int); void stub(void) { exit(1); }")
        self.assertEqual((code, kept), (1, False))
        self.assertIn("calls a function of the device", told)

    def test_registers_count_for_one_architecture(self):
        self.assertEqual(self.launched(said(60, architecture="sm_80")), (0, "", True))

    def test_the_last_line_that_holds_counts_and_one_must(self):
        self.assertEqual(self.launched(said(60), table="* 20 0\n*:turn 60 0  # why\n")[0], 0)
        code, told, _ = self.launched(said(20), table="norm.cu:* 20 0\n")
        self.assertEqual(code, 1)
        self.assertIn("has no line", told)

    def test_what_else_the_compiler_says_and_how_it_ends_are_passed_on(self):
        code, told, _ = self.launched("x.cu(1): error: no\n", code=2)
        self.assertEqual((code, told), (2, "x.cu(1): error: no\n"))
        self.assertEqual(self.launched(said(99), more=("-M",))[0], 0)  # nothing is compiled


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
