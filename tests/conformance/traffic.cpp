// SPDX-License-Identifier: MIT
#include "tests/conformance/traffic.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace verbena::conformance {

std::string name_of(const ::testing::TestParamInfo<variant>& of) {
  return std::string(of.param.interface == interface_kind::classic ? "classic" : "extended") +
         (of.param.shape == topology::self ? "_self" : "_pair");
}

std::vector<variant> every_variant() {
  return {{interface_kind::classic, topology::self},
          {interface_kind::classic, topology::pair},
          {interface_kind::extended, topology::self},
          {interface_kind::extended, topology::pair}};
}

std::vector<variant> variants_with_two_ends() {
  return {{interface_kind::classic, topology::pair}, {interface_kind::extended, topology::pair}};
}

// Generates eight bytes at a time (SplitMix64), because an emulated machine is slow.
std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> made(bytes);
  std::uint64_t state = seed;
  for (std::size_t at = 0; at < bytes; at += sizeof state) {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t word = state;
    word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
    word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
    word ^= word >> 31U;
    std::memcpy(made.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return made;
}

std::vector<std::byte> pattern_from(std::size_t skipped, std::size_t bytes, std::uint32_t seed) {
  auto made = pattern(bytes, seed);
  made.erase(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(skipped));
  return made;
}

void fill(std::span<std::byte> out, std::uint32_t seed) {
  const auto bytes = pattern(out.size(), seed);
  if (!bytes.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
}

::testing::AssertionResult holds(const memory_region& region, std::size_t offset,
                                 std::span<const std::byte> expected) {
  const auto found = region.bytes().subspan(offset, expected.size());
  if (found.empty() || std::memcmp(found.data(), expected.data(), found.size()) == 0)
    return ::testing::AssertionSuccess();
  const auto [at, should] = std::ranges::mismatch(found, expected);
  return ::testing::AssertionFailure()
         << "byte " << offset + static_cast<std::size_t>(at - found.begin()) << " is "
         << static_cast<unsigned>(*at) << " instead of " << static_cast<unsigned>(*should);
}

std::vector<completion> take(const completion_queue& queue, std::size_t count,
                             std::chrono::milliseconds timeout) {
  std::vector<completion> taken;
  std::array<completion, 16> room;
  const deadline end = test_deadline(timeout);
  while (taken.size() < count && !end.expired()) {
    const auto wanted = std::min(room.size(), count - taken.size());
    for (const auto& done : queue.poll(std::span(room).first(wanted)).value())
      taken.push_back(done);
  }
  if (taken.size() == count) return taken;
  std::string came;
  for (const auto& done : taken) came += "; " + to_string(done);
  raise(error::timed_out("poll", queue.name(),
                         std::to_string(taken.size()) + " completions instead of " +
                             std::to_string(count) + " arrived before the deadline" + came));
}

completion take_one(const completion_queue& queue) { return take(queue, 1).front(); }

::testing::AssertionResult stays_empty(const completion_queue& queue,
                                       std::chrono::milliseconds moment) {
  const deadline end = deadline::after(moment);
  do {
    if (auto now = is_empty(queue); !now) return now;
  } while (!end.expired());
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult is_empty(const completion_queue& queue) {
  std::array<completion, 1> room;
  const auto found = queue.poll(room).value();
  if (found.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "a completion arrived: " << to_string(found.front());
}

::testing::AssertionResult reaches(const queue_pair<rc>& queue, queue_pair_state state) {
  const deadline end = test_deadline(2s);
  queue_pair_state last{};
  do {
    last = queue.current_state().value();
    if (last == state) return ::testing::AssertionSuccess();
  } while (!end.expired());
  return ::testing::AssertionFailure()
         << "the queue pair remains in " << to_string(last) << "; expected " << to_string(state);
}

void data_test::open(link_options options) {
  VERBENA_NEEDS(!is_efa(), "an EFA has no connected queue pairs");
  options.shape = GetParam().shape;
  options.initiator.extended = GetParam().interface == interface_kind::extended;
  options.target.extended = options.initiator.extended;
  if (options.shape == topology::self)
    VERBENA_NEEDS(!is_iwarp(), "a queue pair of iWARP cannot be connected to itself");
  link_ = std::make_unique<link>(options);
  if (GetParam().interface == interface_kind::extended)
    VERBENA_NEEDS(initiator().queue.is_extended(), "the provider has no extended interface");
}

}  // namespace verbena::conformance
