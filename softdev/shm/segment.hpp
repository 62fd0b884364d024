// SPDX-License-Identifier: MIT
// The public segment of a process: the owner's writing side and the peers' reading side.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "softdev/core/datagram.hpp"
#include "softdev/shm/sealed_memory.hpp"
#include "softdev/shm/segment_layout.hpp"
#include "verbena/base/result.hpp"

namespace verbena::softdev {

/// A memory region as peers see it. `access` and `pd` are opaque numbers here.
struct region_record {
  std::uint32_t key = 0;
  std::uint32_t pd = 0;
  std::uint32_t access = 0;
  std::uint64_t iova = 0;
  std::uint64_t length = 0;
  std::uint64_t address = 0;       ///< in the owner's address space
  std::uint64_t arena = 0;         ///< 0: ordinary memory
  std::uint64_t arena_offset = 0;  ///< of the region's first byte in the arena
  std::uint64_t generation = 0;    ///< set by publish_region
  /// The entry in which peer_segment::find_region found the region, and its sequence word then.
  const region_entry* found_at = nullptr;
  std::uint32_t sequence = 0;
};

/// The words of a queue pair that change together.
struct queue_pair_record {
  std::uint32_t qpn = 0;
  std::uint32_t state = 0;
  std::uint32_t pd = 0;
  std::uint32_t access = 0;
  std::uint32_t peer_qpn = 0;
};

/// The place of a queue pair's state, if it changes without a lock.
struct state_source {
  const void* of = nullptr;
  std::uint32_t (*read)(const void* of) noexcept = nullptr;
};

/// Writes the public segment of this process. Thread-safe: writers of one segment take a private
/// lock; no call waits for a peer. Does not allocate after creation.
class public_segment {
 public:
  /// Creates, maps and seals the memfd. Untouched entries cost no memory.
  static result<std::unique_ptr<public_segment>> create(std::uint32_t slot,
                                                        std::uint64_t generation);

  /// Makes a region visible to peers. Returns false if all entries, or all places for the key, are
  /// in use; another key may have a free place. Precondition: the key is not 0 and not published.
  [[nodiscard]] bool publish_region(const region_record& region);
  /// Makes a region invisible: when the call returns, readers no longer find the key. link::fence
  /// waits for readers that found it before. Returns false if the key was not published.
  bool withdraw_region(std::uint32_t key);
  /// Returns whether the region of a key is published and is in shareable memory. Takes no lock.
  [[nodiscard]] bool is_shareable(std::uint32_t key) const noexcept;
  /// Makes all regions of shareable memory in [address, address+length) unreadable while their
  /// pages move. Peers find `busy` until thaw_regions() or rebind_regions().
  void freeze_regions(std::uint64_t address, std::uint64_t length);
  /// Makes frozen regions, as peers found them before, no longer current: their pages move now.
  void outdate_regions(std::uint64_t address, std::uint64_t length);
  /// Makes frozen regions readable again, unchanged.
  void thaw_regions(std::uint64_t address, std::uint64_t length);
  /// Publishes that the pages of [address, address+length) moved to another arena, and makes the
  /// regions readable again. `arena_base` is the owner's address of the arena's first byte.
  void rebind_regions(std::uint64_t address, std::uint64_t length, std::uint64_t arena,
                      std::uint64_t arena_base);

  /// Makes a queue pair visible or changes it (sequentially consistent, for link::fence). `state`
  /// replaces the state of the record. It is read with the lock of the lines held, so that the
  /// last of several calls publishes the last state.
  void publish_queue_pair(const queue_pair_record& queue_pair, state_source state = {});
  /// Clears the line: qpn 0, no completion queues, notes 0.
  void withdraw_queue_pair(std::uint32_t qpn);
  /// Publishes the lines of the completion queues of a queue pair; nullopt: it has no line.
  void set_completion_queues(std::uint32_t qpn, std::optional<std::uint32_t> receive,
                             std::optional<std::uint32_t> send) noexcept;
  /// Returns the line of a queue pair, for the words outside `sequence` (receive_queue, send_queue,
  /// notes).
  [[nodiscard]] queue_pair_line& line(std::uint32_t qpn) noexcept;

  /// Claims a line for a completion queue whose peers signal `channel`. Returns nullopt if all
  /// lines are in use.
  [[nodiscard]] std::optional<std::uint32_t> claim_completion_queue(std::uint32_t channel);
  void release_completion_queue(std::uint32_t line);
  /// Sets the armed state and counts the arming (sequentially consistent). The caller must then
  /// poll its rings (link::receive); otherwise a wake-up is lost.
  void arm(std::uint32_t line, arm_state state) noexcept;

  /// Publishes that the process has a queue pair in a multicast group. Returns false if all
  /// `group_entries` are in use. Precondition: the group is not published.
  [[nodiscard]] bool publish_group(const gid_bytes& group);
  /// Publishes that the process no longer has a queue pair in the group.
  void withdraw_group(const gid_bytes& group);

  [[nodiscard]] public_header& header() noexcept { return *map_.at<public_header>(0); }
  /// Returns the descriptor to pass to peers.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// Closes the descriptor in a child of fork.
  void close() noexcept { fd_.reset(); }

 private:
  public_segment(unique_fd fd, mapping map) : fd_(std::move(fd)), map_(std::move(map)) {}
  [[nodiscard]] region_entry& entry(std::uint32_t number) noexcept;
  [[nodiscard]] shared_u32& place(std::uint32_t index) noexcept;
  /// Returns the place of the entry with the key, or `region_places` if the key is not published.
  [[nodiscard]] std::uint32_t find(std::uint32_t key) noexcept;
  [[nodiscard]] region_entry& entry_at(std::uint32_t place) noexcept;
  [[nodiscard]] completion_queue_line& completion_queue(std::uint32_t line) noexcept;
  [[nodiscard]] group_entry& group(std::uint32_t index) noexcept;
  template <class Action>
  void for_shareable(std::uint64_t address, std::uint64_t length, Action&& action);
  void write(region_entry& out, const region_record& region) noexcept;

  unique_fd fd_;
  mapping map_;
  mutable std::mutex regions_mutex_;
  std::mutex lines_mutex_;
  std::bitset<completion_queue_lines> completion_queues_;
  std::uint32_t next_completion_queue_ = 0;
  std::uint32_t used_count_ = 0;
  std::uint32_t fresh_entry_ = 0;  ///< the first that was never used
  /// A stack of the free entries that were used before. They are used first, because a page that
  /// was never accessed costs a page fault.
  std::unique_ptr<std::uint32_t[]> free_entries_ =
      std::make_unique_for_overwrite<std::uint32_t[]>(region_entries);
  std::uint32_t free_count_ = 0;
  std::uint64_t next_generation_ = 1;
};

/// The result of a lookup in a peer's segment.
enum class lookup : std::uint8_t {
  found,
  absent,
  busy,  ///< the owner is changing the entry: try again later
};

/// Reads a peer's public segment, which is mapped read-only. Its content is not trusted: every
/// field is copied once and loops are bounded. Thread-safe; does not block or allocate.
class peer_segment {
 public:
  peer_segment() noexcept = default;
  explicit peer_segment(mapping map) noexcept : map_(std::move(map)) {}

  [[nodiscard]] lookup find_region(std::uint32_t key, region_record& out) const noexcept;
  /// Returns whether `region` is still published as find_region() returned it, or is frozen: while
  /// the caller stays in its section, the owner does not replace the pages, unless it passes the
  /// caller over, and then the region is no longer current.
  [[nodiscard]] static bool is_current(const region_record& region) noexcept;
  [[nodiscard]] lookup find_queue_pair(std::uint32_t qpn, queue_pair_record& out) const noexcept;
  [[nodiscard]] const queue_pair_line& line(std::uint32_t qpn) const noexcept;
  /// Returns the line of the completion queue into which a queue pair receives; nullptr if the peer
  /// has published no valid line.
  [[nodiscard]] const completion_queue_line* receive_queue_of(std::uint32_t qpn) const noexcept;
  /// Returns likewise the line of the completion queue of its send queue.
  [[nodiscard]] const completion_queue_line* send_queue_of(std::uint32_t qpn) const noexcept;
  /// Returns whether the process is in a multicast group; also true while the process changes an
  /// entry.
  [[nodiscard]] bool may_be_in(const gid_bytes& group) const noexcept;
  [[nodiscard]] const public_header& header() const noexcept { return *map_.at<public_header>(0); }
  [[nodiscard]] explicit operator bool() const noexcept { return map_.size() != 0; }

 private:
  [[nodiscard]] const completion_queue_line* completion_queue(
      const shared_u32& named) const noexcept;

  mapping map_;
};

/// Returns the armed state in an arm word.
[[nodiscard]] constexpr arm_state arm_state_of(std::uint32_t word) noexcept {
  return (word & 3U) == 1   ? arm_state::solicited
         : (word & 3U) == 2 ? arm_state::any
                            : arm_state::none;
}

}  // namespace verbena::softdev
