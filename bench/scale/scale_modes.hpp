// SPDX-License-Identifier: MIT
// The measurements of scale_device. Those of a pair run in both processes; the parent's result
// counts.
#pragma once

#include <cstddef>
#include <string>

#include "bench/local/process_pair.hpp"

namespace bench {

// Requests of 8 bytes per second, each to a queue pair chosen at random; at most 64 outstanding.
double write_rate(const process_pair& pair, std::size_t queue_pairs);
double send_rate(const process_pair& pair, std::size_t queue_pairs);
// Nanoseconds of arming a completion queue into which `queue_pairs` queue pairs receive.
double arming(const process_pair& pair, std::size_t queue_pairs);
// SENDs per second of one queue pair, while `waiting` other ones wait because their receiver has
// posted no receive request. 1,000 others are there in each case.
double rate_beside_waiting(const process_pair& pair, std::size_t waiting);
// Milliseconds of processor time per second of a process with `queue_pairs` connected queue pairs
// that does nothing; the larger one of the two processes.
double idle_time(const process_pair& pair, std::size_t queue_pairs);
// Operations per second of all threads together, each with a queue pair and completion queues of
// its own: SENDs to a thread of the other process.
double thread_rate(const process_pair& pair, std::size_t threads);

// Instructions and locked instructions of one operation while `threads` threads exist that have a
// queue pair and a completion queue each: "INSTRUCTIONS LOCKED".
std::string send_instructions(std::size_t threads);   // to a queue pair of the process
std::string write_instructions(std::size_t threads);  // to another process

// Memory, descriptors and times of `processes` processes that are all connected to each other:
// lines "NAME NUMBER".
std::string crowd(std::size_t processes);

}  // namespace bench
