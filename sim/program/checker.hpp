#pragma once
// Checker: proves a Program sound before anything runs it. Rules:
//   waits        every wait has a signal issued before it, unless it may_precede
//   lifetimes    nothing is used before its alloc or after its free, allocated or freed twice, or
//                left at the end of the step; views lie inside their instance
//   order        a use on another stream than an earlier conflicting one (write and read, write and
//                write, range by range) comes after it by waits (vector clocks over streams); the
//                first use of an allocation comes after compute's position at the alloc; a free
//                comes after every other stream's use, as the compute stream knows
//   matching     each send has its receive, in the same order with equal bytes per (pair, tag); the
//                members of a group call the same collectives in the same order per stream
//   passes       in training each layer's forward has exactly one backward in each micro-batch;
//                where the schedule splits it, each input gradient has its weight gradient
//   accumulation persistent gradients add up in ascending micro-batches; in a V those of each
//                operator do (tied embeddings and head are passes of their own on one rank)
//   versions     without flush: each micro-batch of step s reads, in every pass, the weights that
//                s - delay updates made, and an update starts from those of the one before
//   progress     no deadlock: streams run until nothing moves, a message or collective completing
//                when all its parties have come to it (rendezvous, the strictest of transports);
//                pushes and replies of servers are buffered, and complete when they start
//   launches     no deadlock either where a rank runs what it communicates one after another, in
//                issue order over all streams and groups. A GPU does so when the kernels that run
//                leave no room for another. It must have room for one more beside those that send:
//                a send waits for its receiver and holds up the later sends of its stream alone.
//                Not of pipelines without flush, nor of servers that answer worker by worker: they
//                need streams that run beside each other (check_launches)
//
// Bounded: a schedule is periodic between its warm-up and its drain, and actions name instances
// relative to their micro-batch, so what holds once every slot has been reused within the steady
// phase holds in all later rounds. At most in_flight + slots + 2 micro-batches are walked, rounded
// up to whole rounds of an interleaved schedule (slots of at least micro_batches are never reused
// and do not count). Without flush a run of such steps is walked that fills, is steady and drains.
// Up to 64 ranks all are played against each other; beyond that one rank per
// class and stage stands for its equals, with tensor index 0.
// Pure; thread-safe.

#include <vector>

#include "core/result.hpp"
#include "sim/program/program.hpp"

namespace program {

inline constexpr int kRanksPlayed = 64;

// Empty when sound. Problem::where names class or rank, routine, block, layer, micro-batch, action
// index and kind. Each action is reported once per rule.
core::Problems check(const Program& program);

// The rule `launches` of any Program: empty where one launch at a time, beside those that send, is
// enough. For those who execute it so. REQUIRES: check(program) is empty.
core::Problems check_launches(const Program& program);

}  // namespace program
