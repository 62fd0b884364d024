// SPDX-License-Identifier: MIT
// The layout of memory that processes share. Every word has one writer: the process that owns the
// segment. Other processes map the segment read-only (F_SEAL_FUTURE_WRITE), so the hardware
// enforces this rule. The only exception is the doorbell page: every peer may set its bits.
//
// Three kinds of segment, each a sealed memfd passed by descriptor:
//   public segment   one per process: header, queue pair lines, completion queue lines, memory
//                    region table, groups
//   pair segment     one per ordered pair: outgoing ring, position in the incoming ring, lanes
//   doorbell page    one per process: one bit per peer slot, and a summary
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "softdev/core/cache_line.hpp"
#include "softdev/core/process_slot.hpp"

namespace verbena::softdev {

inline constexpr std::uint64_t segment_magic = 0x3062'6e62'7276'0001;
/// Changes with every change of a layout or a message. Processes with different versions do not
/// pair.
inline constexpr std::uint32_t layout_version = 11;

/// One line per queue pair number of a process: the number's low 14 bits are the index.
inline constexpr std::uint32_t queue_pair_lines = limits::queue_pair_indices;
/// One line per completion queue that has a completion channel.
inline constexpr std::uint32_t completion_queue_lines = 1U << 14;
inline constexpr std::uint32_t region_entries = limits::max_regions;
/// Words that name entries, for finding a region by its key.
inline constexpr std::uint32_t region_places = 1U << 18;
static_assert(region_places >= 2 * region_entries);
inline constexpr std::uint32_t group_entries = 128;
/// The number of places that may name the region of a key, from the place that the key determines.
inline constexpr std::uint32_t region_window = 16;
/// The maximum number of threads of a process inside active sections of one peer at a time.
inline constexpr std::uint32_t lane_count = 64;
inline constexpr std::size_t segment_page = 4096;

using shared_u32 = std::atomic<std::uint32_t>;
using shared_u64 = std::atomic<std::uint64_t>;
static_assert(shared_u32::is_always_lock_free && sizeof(shared_u32) == 4);
static_assert(shared_u64::is_always_lock_free && sizeof(shared_u64) == 8);

/// First page of the public segment.
struct alignas(cache_line) public_header {
  shared_u64 magic;
  shared_u32 version;
  shared_u32 slot;
  shared_u64 generation;  ///< random, one per link
  /// Producers read these words after each publication, so their line is one that rarely changes:
  alignas(cache_line) shared_u32 sleeping;  ///< the sleep of the progress thread: see `sleep_bits`
  shared_u32 doorbells;                     ///< not 0: producers must ring the doorbell
  shared_u32 groups;                        ///< the number of leading entries that may be in use
};
static_assert(sizeof(public_header) <= segment_page);

/// The low bits of public_header::sleeping. The bits above count the sleeps.
struct sleep_bits {
  /// The thread waits for a signal.
  static constexpr std::uint32_t asleep = 1;
  /// With `asleep`: the wait is short, and the thread then receives what threads of the program
  /// have not received. No signal is necessary for a record of which the program learns by a
  /// signal to its completion channel, or for which no thread waits.
  static constexpr std::uint32_t checks = 2;
  static constexpr std::uint32_t one_sleep = 4;
};

/// The events for which a completion queue is armed.
enum class arm_state : std::uint32_t { none = 0, solicited = 1, any = 2 };

/// One queue pair as its peers see it. The words of the first group change together under
/// `sequence` (odd while they change); each other word changes independently.
struct alignas(cache_line) queue_pair_line {
  shared_u32 sequence;
  shared_u32 qpn;  ///< 0: the line is not in use
  shared_u32 state;
  shared_u32 pd;
  shared_u32 access;
  shared_u32 peer_qpn;

  shared_u32 receive_queue;  ///< 1 + the line of the receive completion queue; 0: no such line
  shared_u32 send_queue;     ///< likewise, of the send completion queue
  shared_u64 notes[3];       ///< their meaning is defined by the code that owns queue pairs
};
static_assert(sizeof(queue_pair_line) == cache_line);

/// One completion queue as the peers of its queue pairs see it. Arming it changes one word,
/// regardless of the number of queue pairs that receive into it.
struct alignas(cache_line) completion_queue_line {
  shared_u32 arm;      ///< arm_state in the low 2 bits, a count of armings above
  shared_u32 channel;  ///< wake channel to signal: a wake_channel_id, 0 for none
};
static_assert(sizeof(completion_queue_line) == cache_line);

/// One registered memory region; all words change together under `sequence`.
struct alignas(cache_line) region_entry {
  shared_u32 sequence;
  shared_u32 key;  ///< 0: empty
  shared_u32 pd;
  shared_u32 access;
  shared_u64 iova;
  shared_u64 length;
  shared_u64 address;  ///< in the owner's address space
  shared_u64 arena;    ///< id of the shareable memory that contains it; 0: ordinary memory
  shared_u64 arena_offset;
  shared_u64 generation;  ///< of this registration; never repeats in a process
};
static_assert(sizeof(region_entry) == cache_line);

/// One multicast group in which the process has a queue pair; all words change together under
/// `sequence`.
struct alignas(32) group_entry {
  shared_u32 sequence;
  shared_u32 used;    ///< 0: empty
  shared_u64 gid[2];  ///< in memory order
};
static_assert(sizeof(group_entry) == 32);

inline constexpr std::size_t queue_pair_lines_offset = segment_page;
inline constexpr std::size_t completion_queue_lines_offset =
    queue_pair_lines_offset + std::size_t{queue_pair_lines} * sizeof(queue_pair_line);
inline constexpr std::size_t regions_offset =
    completion_queue_lines_offset +
    std::size_t{completion_queue_lines} * sizeof(completion_queue_line);
/// The array of places. Each is 1 + the number of an entry, or 0.
inline constexpr std::size_t region_places_offset =
    regions_offset + std::size_t{region_entries} * sizeof(region_entry);
inline constexpr std::size_t groups_offset =
    region_places_offset + std::size_t{region_places} * sizeof(shared_u32);
inline constexpr std::size_t public_segment_bytes = groups_offset + segment_page;
static_assert(group_entries * sizeof(group_entry) <= segment_page);

/// The first two pages of a pair segment; the ring's bytes follow them. Only a process with many
/// threads accesses the second page.
struct alignas(cache_line) pair_header {
  shared_u64 magic;
  shared_u32 version;
  shared_u32 ring_bytes;
  shared_u64 lanes_used;                     ///< bit i: lane i has been used
  alignas(cache_line) shared_u64 published;  ///< total of records announced in the outgoing ring
  shared_u32 wants_space;  ///< not 0: the owner found its outgoing ring full and waits
  alignas(cache_line) shared_u64 consumed_bytes;  ///< position in the incoming ring
  /// A lane is odd while a thread of the owner accesses the peer's memory.
  struct alignas(cache_line) lane {
    shared_u64 word;
  } lanes[lane_count];
};
static_assert(sizeof(pair_header) <= 2 * segment_page);

inline constexpr std::size_t pair_ring_offset = 2 * segment_page;
inline constexpr std::uint32_t min_ring_bytes = 1U << 14;
inline constexpr std::uint32_t max_ring_bytes = 1U << 24;

/// The doorbell page. Bit i of word w: slot w*64+i has published. Bit w of the summary: word w is
/// not 0. Every peer may set bits. A peer that clears bits of others only delays them, because all
/// rings are polled from time to time.
struct alignas(cache_line) doorbell_page {
  shared_u64 summary;
  alignas(cache_line) shared_u64 words[slot_count / 64];
};
static_assert(slot_count % 64 == 0 && slot_count / 64 <= 64, "one summary word has all words");
static_assert(sizeof(doorbell_page) <= segment_page);

}  // namespace verbena::softdev
