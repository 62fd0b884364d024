// SPDX-License-Identifier: MIT
#include "softdev/shm/segment.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include "verbena/base/assert.hpp"

namespace verbena::softdev {

namespace {
constexpr auto relaxed = std::memory_order_relaxed;
constexpr int snapshot_attempts = 64;

std::uint32_t place_of(std::uint32_t key) noexcept { return (key * 0x9e37'79b1U) >> (32 - 18); }
static_assert(region_places == 1U << 18);

/// Changes words under a sequence word, so that readers detect a torn copy. The words are stored
/// between two stores of the sequence word; release stores keep them behind the first one.
template <class Body>
void change(shared_u32& sequence, Body&& body) noexcept {
  const std::uint32_t before = sequence.load(relaxed) & ~1U;  // it is odd if the entry is frozen
  sequence.store(before + 1, relaxed);
  body();
  sequence.store(before + 2, std::memory_order_seq_cst);
}

void put(shared_u32& word, std::uint32_t value) noexcept {
  word.store(value, std::memory_order_release);
}
void put(shared_u64& word, std::uint64_t value) noexcept {
  word.store(value, std::memory_order_release);
}

/// Copies words under a sequence word and returns its value; an odd value if the owner was changing
/// the words at each attempt. The first load is sequentially consistent: it orders the copy after
/// the reader's active mark.
template <class Body>
std::uint32_t snapshot(const shared_u32& sequence, Body&& body) noexcept {
  for (int attempt = 0; attempt < snapshot_attempts; ++attempt) {
    const std::uint32_t before = sequence.load(std::memory_order_seq_cst);
    if ((before & 1U) != 0) continue;
    body();
    if (sequence.load(relaxed) == before) return before;
  }
  return 1;
}
constexpr bool is_whole(std::uint32_t sequence) noexcept { return (sequence & 1U) == 0; }

std::uint32_t get(const shared_u32& word) noexcept { return word.load(std::memory_order_acquire); }
std::uint64_t get(const shared_u64& word) noexcept { return word.load(std::memory_order_acquire); }

// Copies word by word into `out`: a later copy of the whole record would stall until the stores of
// its words have completed.
void copy_region(const region_entry& entry, region_record& out) noexcept {
  out.key = get(entry.key);
  out.pd = get(entry.pd);
  out.access = get(entry.access);
  out.iova = get(entry.iova);
  out.length = get(entry.length);
  out.address = get(entry.address);
  out.arena = get(entry.arena);
  out.arena_offset = get(entry.arena_offset);
  out.generation = get(entry.generation);
}

/// Finds the region of a key in a segment that may change meanwhile and is not trusted.
lookup find_in(const mapping& segment, std::uint32_t key, region_record& out) noexcept {
  if (key == 0) return lookup::absent;
  const std::uint32_t first = place_of(key);
  for (std::uint32_t step = 0; step < region_window; ++step) {
    const std::size_t index = (first + step) % region_places;
    const std::uint32_t number =
        segment.at<shared_u32>(region_places_offset + index * sizeof(shared_u32))
            ->load(std::memory_order_acquire) -
        1;
    if (number >= region_entries) continue;  // or the place is empty
    const auto& entry =
        *segment.at<region_entry>(regions_offset + std::size_t{number} * sizeof(region_entry));
    if (entry.key.load(std::memory_order_seq_cst) != key) continue;
    const std::uint32_t sequence = snapshot(entry.sequence, [&] { copy_region(entry, out); });
    if (!is_whole(sequence)) return lookup::busy;
    if (out.key != key) continue;
    out.found_at = &entry;
    out.sequence = sequence;
    return lookup::found;
  }
  return lookup::absent;
}

/// A GID as two words.
using group_words = std::array<std::uint64_t, 2>;
group_words words_of(const gid_bytes& group) noexcept { return std::bit_cast<group_words>(group); }
}  // namespace

result<std::unique_ptr<public_segment>> public_segment::create(std::uint32_t slot,
                                                               std::uint64_t generation) {
  VERBENA_TRY(sealed_memory memory,
              create_sealed("verbena-public", public_segment_bytes, sealed_for::owner_only));
  std::unique_ptr<public_segment> segment(
      new public_segment(std::move(memory.fd), std::move(memory.map)));
  auto& header = segment->header();
  header.version.store(layout_version, relaxed);
  header.slot.store(slot, relaxed);
  header.generation.store(generation, relaxed);
  header.magic.store(segment_magic, std::memory_order_release);
  return segment;
}

region_entry& public_segment::entry(std::uint32_t number) noexcept {
  return *map_.at<region_entry>(regions_offset + std::size_t{number} * sizeof(region_entry));
}

shared_u32& public_segment::place(std::uint32_t index) noexcept {
  return *map_.at<shared_u32>(region_places_offset + std::size_t{index} * sizeof(shared_u32));
}

region_entry& public_segment::entry_at(std::uint32_t place) noexcept {
  return entry(this->place(place).load(relaxed) - 1);
}

std::uint32_t public_segment::find(std::uint32_t key) noexcept {
  const std::uint32_t first = place_of(key);
  for (std::uint32_t step = 0; step < region_window; ++step) {
    const std::uint32_t at = (first + step) % region_places;
    if (place(at).load(relaxed) != 0 && entry_at(at).key.load(relaxed) == key) return at;
  }
  return region_places;
}

void public_segment::write(region_entry& out, const region_record& region) noexcept {
  change(out.sequence, [&] {
    put(out.key, region.key);
    put(out.pd, region.pd);
    put(out.access, region.access);
    put(out.iova, region.iova);
    put(out.length, region.length);
    put(out.address, region.address);
    put(out.arena, region.arena);
    put(out.arena_offset, region.arena_offset);
    put(out.generation, next_generation_);
  });
  ++next_generation_;
}

bool public_segment::publish_region(const region_record& region) {
  VERBENA_ASSERT(region.key != 0, "key 0 names no memory region");
  const std::lock_guard lock(regions_mutex_);
  VERBENA_ASSERT(find(region.key) == region_places, "a key is published once at a time");
  if (used_count_ == region_entries) return false;
  const std::uint32_t first = place_of(region.key);
  for (std::uint32_t step = 0; step < region_window; ++step) {
    shared_u32& free = place((first + step) % region_places);
    if (free.load(relaxed) != 0) continue;
    const std::uint32_t number = free_count_ != 0 ? free_entries_[--free_count_] : fresh_entry_++;
    ++used_count_;
    write(entry(number), region);
    free.store(number + 1, std::memory_order_release);
    return true;
  }
  return false;
}

bool public_segment::is_shareable(std::uint32_t key) const noexcept {
  region_record region;
  return find_in(map_, key, region) == lookup::found && region.arena != 0;
}

bool public_segment::withdraw_region(std::uint32_t key) {
  if (key == 0) return false;
  const std::lock_guard lock(regions_mutex_);
  const std::uint32_t at = find(key);
  if (at == region_places) return false;
  const std::uint32_t number = place(at).load(relaxed) - 1;
  write(entry(number), {});
  place(at).store(0, relaxed);
  free_entries_[free_count_++] = number;
  --used_count_;
  return true;
}

template <class Action>
void public_segment::for_shareable(std::uint64_t address, std::uint64_t length, Action&& action) {
  const std::lock_guard lock(regions_mutex_);
  for (std::uint32_t number = 0; number < fresh_entry_; ++number) {
    region_entry& at = entry(number);
    if (at.key.load(relaxed) == 0) continue;
    region_record region;
    copy_region(at, region);
    if (region.arena != 0 && region.address - address < length) action(at, region);
  }
}

void public_segment::freeze_regions(std::uint64_t address, std::uint64_t length) {
  for_shareable(address, length, [](region_entry& at, const region_record&) {
    at.sequence.store(at.sequence.load(relaxed) | 1U, std::memory_order_seq_cst);
  });
}

void public_segment::thaw_regions(std::uint64_t address, std::uint64_t length) {
  for_shareable(address, length, [](region_entry& at, const region_record&) {
    at.sequence.store(at.sequence.load(relaxed) & ~1U, std::memory_order_seq_cst);
  });
}

void public_segment::outdate_regions(std::uint64_t address, std::uint64_t length) {
  for_shareable(address, length, [this](region_entry& at, const region_record&) {
    at.generation.store(next_generation_++, std::memory_order_seq_cst);
  });
}

void public_segment::rebind_regions(std::uint64_t address, std::uint64_t length,
                                    std::uint64_t arena, std::uint64_t arena_base) {
  for_shareable(address, length, [&](region_entry& at, region_record region) {
    region.arena = arena;
    region.arena_offset = region.address - arena_base;
    write(at, region);
  });
}

void public_segment::set_completion_queues(std::uint32_t qpn, std::optional<std::uint32_t> receive,
                                           std::optional<std::uint32_t> send) noexcept {
  queue_pair_line& out = line(qpn);
  out.receive_queue.store(receive ? *receive + 1 : 0, std::memory_order_seq_cst);
  out.send_queue.store(send ? *send + 1 : 0, std::memory_order_seq_cst);
}

queue_pair_line& public_segment::line(std::uint32_t qpn) noexcept {
  const std::size_t index = qpn % queue_pair_lines;
  return *map_.at<queue_pair_line>(queue_pair_lines_offset + index * sizeof(queue_pair_line));
}

void public_segment::publish_queue_pair(const queue_pair_record& queue_pair, state_source state) {
  const std::lock_guard lock(lines_mutex_);
  const std::uint32_t now = state.read == nullptr ? queue_pair.state : state.read(state.of);
  queue_pair_line& out = line(queue_pair.qpn);
  change(out.sequence, [&] {
    put(out.qpn, queue_pair.qpn);
    put(out.state, now);
    put(out.pd, queue_pair.pd);
    put(out.access, queue_pair.access);
    put(out.peer_qpn, queue_pair.peer_qpn);
  });
}

void public_segment::withdraw_queue_pair(std::uint32_t qpn) {
  const std::lock_guard lock(lines_mutex_);
  queue_pair_line& out = line(qpn);
  change(out.sequence, [&] {
    for (shared_u32* word : {&out.qpn, &out.state, &out.pd, &out.access, &out.peer_qpn}) {
      put(*word, 0);
    }
  });
  put(out.receive_queue, 0);
  put(out.send_queue, 0);
  for (shared_u64& note : out.notes) put(note, 0);
}

group_entry& public_segment::group(std::uint32_t index) noexcept {
  return *map_.at<group_entry>(groups_offset + index * sizeof(group_entry));
}

bool public_segment::publish_group(const gid_bytes& group) {
  const std::lock_guard lock(lines_mutex_);
  std::uint32_t index = 0;
  while (index < group_entries && this->group(index).used.load(relaxed) != 0) ++index;
  if (index == group_entries) return false;
  group_entry& out = this->group(index);
  const group_words words = words_of(group);
  change(out.sequence, [&] {
    put(out.used, 1);
    put(out.gid[0], words[0]);
    put(out.gid[1], words[1]);
  });
  // The count never decreases, so readers find all entries in use during a change.
  if (header().groups.load(relaxed) <= index) header().groups.store(index + 1);
  return true;
}

void public_segment::withdraw_group(const gid_bytes& group) {
  const std::lock_guard lock(lines_mutex_);
  const group_words words = words_of(group);
  for (std::uint32_t index = 0; index < group_entries; ++index) {
    group_entry& out = this->group(index);
    if (out.used.load(relaxed) == 0 || out.gid[0].load(relaxed) != words[0] ||
        out.gid[1].load(relaxed) != words[1])
      continue;
    change(out.sequence, [&] { put(out.used, 0); });
  }
}

completion_queue_line& public_segment::completion_queue(std::uint32_t line) noexcept {
  return *map_.at<completion_queue_line>(completion_queue_lines_offset +
                                         line * sizeof(completion_queue_line));
}

std::optional<std::uint32_t> public_segment::claim_completion_queue(std::uint32_t channel) {
  const std::lock_guard lock(lines_mutex_);
  for (std::uint32_t step = 0; step < completion_queue_lines; ++step) {
    const std::uint32_t index = (next_completion_queue_ + step) % completion_queue_lines;
    if (completion_queues_[index]) continue;
    completion_queues_[index] = true;
    next_completion_queue_ = index + 1;
    put(completion_queue(index).channel, channel);
    return index;
  }
  return std::nullopt;
}

void public_segment::release_completion_queue(std::uint32_t line) {
  const std::lock_guard lock(lines_mutex_);
  put(completion_queue(line).channel, 0);
  arm(line, arm_state::none);
  completion_queues_[line] = false;
  next_completion_queue_ = line;
}

void public_segment::arm(std::uint32_t line, arm_state state) noexcept {
  shared_u32& word = completion_queue(line).arm;
  std::uint32_t before = word.load(relaxed);
  std::uint32_t after = 0;
  do {
    after = (((before >> 2) + 1) << 2) | static_cast<std::uint32_t>(state);
  } while (!word.compare_exchange_weak(before, after, std::memory_order_seq_cst));
}

lookup peer_segment::find_region(std::uint32_t key, region_record& out) const noexcept {
  return find_in(map_, key, out);
}

bool peer_segment::is_current(const region_record& region) noexcept {
  const region_entry& entry = *region.found_at;
  // A frozen entry has an odd sequence word, but its pages stay until it has another generation.
  return get(entry.generation) == region.generation &&
         (entry.sequence.load(std::memory_order_seq_cst) & ~1U) == region.sequence;
}

const queue_pair_line& peer_segment::line(std::uint32_t qpn) const noexcept {
  const std::size_t index = qpn % queue_pair_lines;
  return *map_.at<queue_pair_line>(queue_pair_lines_offset + index * sizeof(queue_pair_line));
}

const completion_queue_line* peer_segment::completion_queue(
    const shared_u32& named) const noexcept {
  const std::uint32_t number = named.load(std::memory_order_seq_cst);
  if (number == 0 || number > completion_queue_lines) return nullptr;
  return map_.at<completion_queue_line>(completion_queue_lines_offset +
                                        (number - 1) * sizeof(completion_queue_line));
}

const completion_queue_line* peer_segment::receive_queue_of(std::uint32_t qpn) const noexcept {
  return completion_queue(line(qpn).receive_queue);
}

const completion_queue_line* peer_segment::send_queue_of(std::uint32_t qpn) const noexcept {
  return completion_queue(line(qpn).send_queue);
}

lookup peer_segment::find_queue_pair(std::uint32_t qpn, queue_pair_record& out) const noexcept {
  const queue_pair_line& in = line(qpn);
  const bool whole = is_whole(snapshot(in.sequence, [&] {
    out.qpn = get(in.qpn);
    out.state = get(in.state);
    out.pd = get(in.pd);
    out.access = get(in.access);
    out.peer_qpn = get(in.peer_qpn);
  }));
  if (!whole) return lookup::busy;
  return qpn != 0 && out.qpn == qpn ? lookup::found : lookup::absent;
}

bool peer_segment::may_be_in(const gid_bytes& group) const noexcept {
  const std::uint32_t count = std::min(header().groups.load(), group_entries);
  const group_words wanted = words_of(group);
  for (std::uint32_t index = 0; index < count; ++index) {
    const auto& entry = *map_.at<group_entry>(groups_offset + index * sizeof(group_entry));
    group_words found{};
    bool used = false;
    const bool whole = is_whole(snapshot(entry.sequence, [&] {
      used = get(entry.used) != 0;
      found = {get(entry.gid[0]), get(entry.gid[1])};
    }));
    if (!whole || (used && found == wanted)) return true;
  }
  return false;
}

}  // namespace verbena::softdev
