// SPDX-License-Identifier: MIT
// Advertisement messages of a peer: those of a correct table, changed ones, and any bytes, between
// the calls of this side.
#include "verbena/bringup/advertisement.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/target.hpp"

namespace verbena::bringup {
namespace {

using fuzz::require;

constexpr std::size_t most_buffers = 4;
constexpr std::uint32_t numbers = 8;

remote_region region_of(std::uint64_t length) {
  return remote_region::try_make({.address = 4096, .length = length, .key = remote_key(7)}).value();
}

bool equal(const advertisement_table& one, const advertisement_table& other) {
  if (one.pending() != other.pending()) return false;
  for (std::uint32_t i = 0; i < numbers; ++i)
    if (one.is_advertised(i) != other.is_advertised(i) || one.is_usable(i) != other.is_usable(i))
      return false;
  return true;
}

class exchange {
 public:
  void step(fuzz::reader& from) {
    const auto number = std::uint32_t{from.take<std::uint8_t>()} % numbers;
    switch (from.take<std::uint8_t>() % 8) {
      case 0:  // any bytes
        return take(from.take_bytes(advertisement_bytes));
      case 1:
        if (peer_.advertise(region_of(number), access::remote_read, name_of(number), message_))
          deliver(from);
        return;
      case 2:
        return deliver(peer_.revoke(number), from);
      case 3:
        return deliver(peer_.release(number), from);
      case 4:
        return next();
      case 5:
        if (own_.advertise(region_of(number), access::remote_write, name_of(number), message_))
          static_cast<void>(peer_.take(message_));
        return;
      case 6:
        if (const auto out = own_.revoke(number)) static_cast<void>(peer_.take(*out));
        return;
      default:
        release(number);
    }
  }

 private:
  static std::string name_of(std::uint32_t number) {
    return number == 0 ? std::string() : std::string(number, 'n');
  }

  void deliver(const result<advertisement_message>& made, fuzz::reader& from) {
    if (!made) return;
    message_ = *made;
    deliver(from);
  }
  // Changes one byte of the message unless the mask is 0.
  void deliver(fuzz::reader& from) {
    const std::size_t at = from.take<std::uint8_t>() % message_.size();
    message_[at] ^= from.take<std::byte>();
    take(message_);
  }

  void take(fuzz::input message) {
    const advertisement_table before = own_;
    const auto news = own_.take(message);
    if (!news) {
      require(news.error().kind() == error_kind::protocol && equal(before, own_));
      return;
    }
    require(message.size() == advertisement_bytes && own_.pending() <= most_buffers);
    switch (news->kind) {
      case advertisement_kind::advertised:
        require(own_.is_usable(news->number) && own_.pending() == before.pending() + 1);
        break;
      case advertisement_kind::revoked:
        require(!own_.is_usable(news->number) && own_.pending() <= before.pending());
        break;
      case advertisement_kind::released:
        require(before.is_advertised(news->number) && !own_.is_advertised(news->number));
        break;
    }
  }

  void next() {
    const std::size_t pending = own_.pending();
    const auto got = own_.next();
    require(got.has_value() == (pending > 0));
    if (!got) return;
    require(own_.is_usable(got->number) && own_.pending() == pending - 1);
    require(got->region.length() > 0 && !got->access.empty());
    require(got->name.size() <= max_buffer_name);
    require(std::ranges::all_of(got->name, [](char c) { return c >= 0x20 && c < 0x7f; }));
    if (!got->name.empty()) require(own_.find(got->name) == got);
  }

  void release(std::uint32_t number) {
    const bool usable = own_.is_usable(number);
    const auto out = own_.release(number);
    require(out.has_value() || !usable);
    require(!own_.is_usable(number));
    if (out) static_cast<void>(peer_.take(*out));
  }

  advertisement_table own_{{.buffers_of_peer = most_buffers, .own_buffers = most_buffers}};
  advertisement_table peer_{{.buffers_of_peer = most_buffers, .own_buffers = most_buffers}};
  advertisement_message message_{};
};

void run_advertisement(fuzz::input input) {
  fuzz::reader from(input);
  exchange both;
  while (!from.empty()) both.step(from);
}

void advertisement_seeds(fuzz::seed_folder& into) {
  using bytes = std::uint8_t;
  fuzz::writer steps;
  for (const bytes number : {1, 2, 3}) steps.put(number).put(bytes{1}).put(std::uint16_t{0});
  into.add("advertised", steps.put(bytes{0}).put(bytes{4}).bytes());
  into.add("revoked", steps.put(bytes{2}).put(bytes{2}).put(std::uint16_t{0}).bytes());
  into.add("released", steps.put(bytes{2}).put(bytes{7}).bytes());
  fuzz::writer own;
  own.put(bytes{1}).put(bytes{5}).put(bytes{1}).put(bytes{6});
  into.add("own", own.put(bytes{1}).put(bytes{3}).put(std::uint16_t{0}).bytes());
  advertisement_message message;
  static_cast<void>(
      advertisement_table().advertise(region_of(8), access::remote_atomic, "name", message));
  into.add("message", fuzz::writer().put(bytes{0}).put(bytes{0}).put(message).bytes());
}

const fuzz::target advertisements("advertisement", run_advertisement, advertisement_seeds);

}  // namespace
}  // namespace verbena::bringup
