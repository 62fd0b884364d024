// SPDX-License-Identifier: MIT
// The measurements of wire_device. Each runs in both processes; the parent's result is the number.
#pragma once

#include <cstddef>

#include "bench/wire/hosts.hpp"

namespace bench {

// Raw sockets, which soft0 is compared with. Both sides poll their sockets without sleep.
/// One-way nanoseconds of 8 bytes over UDP.
double udp_latency(const hosts& between);
/// Bytes per second in packets of 4096 bytes over UDP, with UDP_SEGMENT and UDP_GRO. As soft0, it
/// has at most 128 packets without an answer.
double udp_bandwidth(const hosts& between);
/// As udp_bandwidth, with one system call per packet.
double udp_single_bandwidth(const hosts& between);
/// Bytes per second in writes of 64 KiB over TCP.
double tcp_bandwidth(const hosts& between);

// soft0.
/// One-way nanoseconds of SENDs of 8 bytes.
double send_latency(const hosts& between);
/// Messages per second: SENDs of 8 bytes in lists of 16.
double send_rate(const hosts& between);
/// Bytes per second of RDMA WRITEs of 64 KiB during one second, until all are complete.
double write_bandwidth(const hosts& between);
/// The time from the loss of a SEND's packet, the last one of the sender, to its completion, in
/// nanoseconds: the median of the repaired ones. Losses are those of VERBENA_SOFTDEV_WIRE_FAULTS.
double repair_time(const hosts& between);
/// Jain's index of the bytes that eight processes write to one process in one second.
double fairness(const hosts& between);
/// WRITEs of 8 bytes per second in lists of 16, over one of `connections` connections each.
double rate_of_connections(const hosts& between, std::size_t connections);

// Checksums of 4 KiB, in nanoseconds.
double icrc_time();
double isal_time();

}  // namespace bench
