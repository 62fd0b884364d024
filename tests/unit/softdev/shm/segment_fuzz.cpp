// SPDX-License-Identifier: MIT
// The public segment of a peer whose words have any values.
#include "softdev/shm/segment.hpp"

#include <sys/mman.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/fuzz/target.hpp"

namespace verbena::softdev {
namespace {

using fuzz::require;

/// A segment that is all zero between two inputs.
class hostile_segment {
 public:
  hostile_segment() {
    void* const place = ::mmap(nullptr, public_segment_bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(place != MAP_FAILED);
    words_ = static_cast<shared_u32*>(place);
    peer_ = peer_segment(mapping(place, public_segment_bytes));
  }

  void step(fuzz::reader& from) {
    const auto what = from.take<std::uint8_t>();
    const auto number = from.take<std::uint32_t>();
    switch (what % 8) {
      case 0:
        return set(number % public_segment_bytes, from.take<std::uint32_t>());
      case 1:  // a word of one of the first lines of queue pairs
        return set(queue_pair_lines_offset + number % 512, from.take<std::uint32_t>());
      case 2:  // a word of one of the first regions
        return set(regions_offset + number % 512, from.take<std::uint32_t>());
      case 3:  // the places of a key
        for (std::uint32_t i = 0; i < 4096; i += number % 64 + 64)
          set(region_places_offset + std::size_t{i} * 4, from.take<std::uint8_t>());
        return;
      case 4:
        return set(groups_offset + number % segment_page, from.take<std::uint32_t>());
      case 5:
        return find_region(number);
      case 6:
        return find_queue_pair(number);
      default:
        find_group(number, from);
    }
  }

  void clear() {
    for (const std::size_t each : changed_) words_[each] = 0;
    changed_.clear();
  }

 private:
  void set(std::size_t offset, std::uint32_t value) {
    words_[offset / 4] = value;
    changed_.push_back(offset / 4);
  }

  void find_region(std::uint32_t key) const {
    region_record found;
    const lookup outcome = peer_.find_region(key, found);
    if (outcome != lookup::found) return;
    require(key != 0 && found.key == key && found.sequence % 2 == 0);
    require(peer_segment::is_current(found));
    const auto at = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(found.found_at) -
                                             reinterpret_cast<std::byte*>(words_));
    require(at >= regions_offset && at + sizeof(region_entry) <= region_places_offset);
  }

  void find_queue_pair(std::uint32_t qpn) const {
    queue_pair_record found;
    const lookup outcome = peer_.find_queue_pair(qpn, found);
    require(outcome != lookup::found || (qpn != 0 && found.qpn == qpn));
    for (const auto* line : {peer_.receive_queue_of(qpn), peer_.send_queue_of(qpn)}) {
      if (line == nullptr) continue;
      const auto at = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(line) -
                                               reinterpret_cast<std::byte*>(words_));
      require(at >= completion_queue_lines_offset &&
              at + sizeof(completion_queue_line) <= regions_offset);
      require(arm_state_of(line->arm.load()) <= arm_state::any);
    }
  }

  void find_group(std::uint32_t count, fuzz::reader& from) {
    set(offsetof(public_header, groups), count);
    static_cast<void>(peer_.may_be_in(from.take<gid_bytes>()));
  }

  shared_u32* words_ = nullptr;
  peer_segment peer_;
  std::vector<std::size_t> changed_;
};

void run_public_segment(fuzz::input input) {
  static hostile_segment segment;
  fuzz::reader from(input);
  for (int steps = 0; !from.empty() && steps < 64; ++steps) segment.step(from);
  segment.clear();
}

// The words of a real segment that are not zero, and a look-up.
void segment_seeds(fuzz::seed_folder& into) {
  const auto owner = public_segment::create(1, 2).value();
  constexpr std::uint32_t qpn = 3;
  constexpr std::uint32_t key = 0x1234'5678;
  const std::uint32_t queue = owner->claim_completion_queue(9).value();
  owner->publish_queue_pair({.qpn = qpn, .state = 3, .pd = 1, .access = 7, .peer_qpn = 5});
  owner->set_completion_queues(qpn, queue, queue);
  owner->arm(queue, arm_state::any);
  require(owner->publish_region({.key = key, .pd = 1, .length = 4096, .address = 4096}));
  gid_bytes group{};
  group[0] = 0xff;
  require(owner->publish_group(group));
  const auto map = map_shared(owner->fd(), public_segment_bytes, map_access::read_only).value();
  fuzz::writer words;
  for (std::size_t offset = 0; offset < public_segment_bytes; offset += 4)
    if (const std::uint32_t value = map.at<shared_u32>(offset)->load(); value != 0)
      words.put(std::uint8_t{0}).put(static_cast<std::uint32_t>(offset)).put(value);
  const auto add = [&](const char* name, std::uint8_t what, std::uint32_t number) {
    fuzz::writer out = words;
    into.add(name, out.put(what).put(number).put(group).bytes());
  };
  add("find_region", 5, key);
  add("find_queue_pair", 6, qpn);
  add("find_group", 7, 1);
}

const fuzz::target segments("public_segment", run_public_segment, segment_seeds);

}  // namespace
}  // namespace verbena::softdev
