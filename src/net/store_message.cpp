// SPDX-License-Identifier: MIT
#include "src/net/store_message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "verbena/base/bytes.hpp"
#include "verbena/net/membership.hpp"
#include "verbena/net/store.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {
namespace {

constexpr std::uint8_t hello_type = 1;
constexpr std::uint8_t exchange_type = 2;
constexpr std::uint8_t proof_type = 3;
constexpr std::uint8_t agreement_type = 4;
constexpr std::uint8_t publish_type = 5;
constexpr std::uint8_t withdraw_type = 6;
constexpr std::uint8_t find_type = 7;
constexpr std::uint8_t check_type = 8;
constexpr std::uint8_t done_type = 1;
constexpr std::uint8_t failed_type = 2;
constexpr std::uint8_t left_type = 3;
constexpr std::uint8_t challenge_type = 4;
constexpr std::uint8_t agreed_type = 5;
constexpr std::uint8_t returned_type = 6;
constexpr std::uint8_t reply_type = 7;
constexpr std::uint8_t numbered_type = 8;

class writer {
 public:
  explicit writer(std::size_t bytes) { out_.reserve(bytes); }

  template <std::unsigned_integral T>
  void put(T value) {
    const std::size_t at = out_.size();
    out_.resize(at + sizeof value);
    store_network_order(out_.data() + at, value);
  }
  void put_bytes(std::span<const std::byte> bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  void put_name(std::string_view name) {
    put(static_cast<std::uint16_t>(name.size()));
    put_bytes(bytes_of(name));
  }
  void put_ranks(std::span<const std::uint32_t> ranks) {
    put(static_cast<std::uint32_t>(ranks.size()));
    for (const std::uint32_t each : ranks) put(each);
  }
  void put_parts(std::span<const std::span<const std::byte>> parts) {
    put(static_cast<std::uint32_t>(parts.size()));
    for (const auto& each : parts) put_value(each);
  }
  void put_value(std::span<const std::byte> bytes) {
    put(static_cast<std::uint32_t>(bytes.size()));
    put_bytes(bytes);
  }
  [[nodiscard]] blob take() { return std::move(out_); }

 private:
  blob out_;
};

std::size_t bytes_of_parts(std::span<const std::span<const std::byte>> parts) noexcept {
  std::size_t bytes = sizeof(std::uint32_t);
  for (const auto& each : parts) bytes += sizeof(std::uint32_t) + each.size();
  return bytes;
}

error broken(const std::string& why) { return error::protocol("store", {}, why); }

// Reads values and records errors. After the first missing value, all later values are missing.
class checked_reader {
 public:
  explicit checked_reader(std::span<const std::byte> bytes) noexcept : from_(bytes) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T take() noexcept {
    const auto value = from_.take<T>();
    is_short_ = is_short_ || !value;
    return value.value_or(T{0});
  }
  [[nodiscard]] std::span<const std::byte> take_bytes(std::size_t count) noexcept {
    const auto bytes = from_.take_bytes(count);
    is_short_ = is_short_ || !bytes;
    return bytes.value_or(std::span<const std::byte>());
  }
  /// Takes the number of a request, which is not 0.
  [[nodiscard]] std::uint32_t take_number() noexcept {
    const auto number = take<std::uint32_t>();
    is_unnumbered_ = is_unnumbered_ || number == 0;
    return number;
  }
  /// Takes an enumerator between 0 and `last`.
  template <class Enumeration>
  [[nodiscard]] Enumeration take_up_to(Enumeration last) noexcept {
    const auto value = take<std::uint8_t>();
    is_unknown_ = is_unknown_ || value > static_cast<std::uint8_t>(last);
    return static_cast<Enumeration>(value);
  }
  template <std::size_t Count>
  [[nodiscard]] std::array<std::byte, Count> take_array() noexcept {
    std::array<std::byte, Count> out{};
    std::ranges::copy(take_bytes(Count), out.begin());
    return out;
  }
  [[nodiscard]] std::string take_name() {
    const auto bytes = take_bytes(take<std::uint16_t>());
    is_long_ = is_long_ || bytes.size() > max_store_name_bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] std::string take_value_name() {
    auto name = take_name();
    is_unnamed_ = is_unnamed_ || !is_value_name(name);
    return name;
  }
  [[nodiscard]] blob take_value() {
    const auto bytes = take_bytes(take<std::uint32_t>());
    is_large_ = is_large_ || bytes.size() > max_value_bytes;
    return {bytes.begin(), bytes.end()};
  }
  [[nodiscard]] std::uint32_t take_count() noexcept {
    const auto count = take<std::uint32_t>();
    is_long_ = is_long_ || count > max_ranks;
    return is_long_ ? 0 : count;
  }
  [[nodiscard]] std::vector<std::uint32_t> take_ranks() {
    std::vector<std::uint32_t> ranks;
    for (auto left = take_count(); left != 0 && !is_short_; --left)
      ranks.push_back(take<std::uint32_t>());
    return ranks;
  }
  [[nodiscard]] blobs take_parts() {
    blobs parts;
    for (auto left = take_count(); left != 0 && !is_short_; --left) {
      const auto bytes = take_bytes(take<std::uint32_t>());
      parts.emplace_back(bytes.begin(), bytes.end());
    }
    return parts;
  }
  [[nodiscard]] result<void> end() const {
    if (is_short_) return broken("the message ends before its last value");
    if (is_unknown_)
      return broken("the message has an unknown entry, kind of agreement or outcome");
    if (is_long_)
      return broken(
          fmt::format("the message has more than {} parts or ranks, or a name of more "
                      "than {} bytes",
                      max_ranks, max_store_name_bytes));
    if (is_large_)
      return broken(fmt::format("the message has a value of more than {} bytes", max_value_bytes));
    if (is_unnamed_)
      return broken("the name of a value is empty or has characters that are not printable");
    if (is_unnumbered_) return broken("the number of a request is 0");
    if (!from_.rest().empty())
      return broken(fmt::format("{} extra bytes after the message", from_.rest().size()));
    return {};
  }

 private:
  byte_reader from_;
  bool is_short_ = false;
  bool is_long_ = false;
  bool is_unknown_ = false;
  bool is_large_ = false;
  bool is_unnamed_ = false;
  bool is_unnumbered_ = false;
};

store_hello read_hello(checked_reader& from) {
  store_hello out;
  out.version = from.take<std::uint8_t>();
  out.entry = from.take_up_to(store_entry::rejoins);
  out.rank = from.take<std::uint32_t>();
  out.size = from.take<std::uint32_t>();
  out.random = from.take_array<sizeof(nonce)>();
  out.name = from.take_name();
  return out;
}

store_exchange read_exchange(checked_reader& from) {
  store_exchange out;
  out.number = from.take_number();
  out.timeout_ms = from.take<std::uint32_t>();
  out.name = from.take_name();
  out.parts = from.take_parts();
  return out;
}

store_agreement read_agreement(checked_reader& from) {
  store_agreement out;
  out.number = from.take_number();
  out.timeout_ms = from.take<std::uint32_t>();
  out.kind = from.take_up_to(agreement_kind::waits);
  out.renewal = from.take<std::uint32_t>();
  out.awaited = from.take_ranks();
  out.name = from.take_name();
  out.parts = from.take_parts();
  return out;
}

store_publish read_publish(checked_reader& from) {
  store_publish out;
  out.number = from.take_number();
  out.name = from.take_value_name();
  out.value = from.take_value();
  return out;
}

store_withdraw read_withdraw(checked_reader& from) {
  store_withdraw out;
  out.number = from.take_number();
  out.name = from.take_value_name();
  return out;
}

store_find read_find(checked_reader& from) {
  store_find out;
  out.number = from.take_number();
  out.timeout_ms = from.take<std::uint32_t>();
  out.rank = from.take<std::uint32_t>();
  out.name = from.take_value_name();
  return out;
}

blob encode_ranks(std::uint8_t type, std::span<const std::uint32_t> ranks) {
  writer out(8 + ranks.size() * sizeof(std::uint32_t));
  out.put(type);
  out.put_ranks(ranks);
  return out.take();
}

}  // namespace

blob encode(const store_hello& of) {
  writer out(32 + of.name.size());
  out.put(hello_type);
  out.put(of.version);
  out.put(static_cast<std::uint8_t>(of.entry));
  out.put(of.rank);
  out.put(of.size);
  out.put_bytes(of.random);
  out.put_name(of.name);
  return out.take();
}

blob encode(const store_failed& of) {
  writer out(16 + of.ranks.size() * sizeof(std::uint32_t) + of.name.size());
  out.put(failed_type);
  out.put(static_cast<std::uint8_t>(of.why));
  out.put(of.rank);
  out.put_ranks(of.ranks);
  out.put_name(of.name);
  return out.take();
}

blob encode(const store_proof& of) {
  writer out(1 + sizeof of.proof);
  out.put(proof_type);
  out.put_bytes(of.proof);
  return out.take();
}

blob encode(const store_challenge& of) {
  writer out(1 + sizeof of.random + sizeof of.proof);
  out.put(challenge_type);
  out.put_bytes(of.random);
  out.put_bytes(of.proof);
  return out.take();
}

blob encode(const store_withdraw& of) {
  writer out(8 + of.name.size());
  out.put(withdraw_type);
  out.put(of.number);
  out.put_name(of.name);
  return out.take();
}

blob encode(const store_find& of) {
  writer out(16 + of.name.size());
  out.put(find_type);
  out.put(of.number);
  out.put(of.timeout_ms);
  out.put(of.rank);
  out.put_name(of.name);
  return out.take();
}

blob encode(const store_check& of) {
  writer out(8);
  out.put(check_type);
  out.put(of.number);
  return out.take();
}

blob encode(const store_reply& of) {
  writer out(32 + of.value.size());
  out.put(reply_type);
  out.put(of.number);
  out.put(static_cast<std::uint8_t>(of.outcome));
  out.put(of.detail);
  out.put_value(of.value);
  return out.take();
}

blob encode_publish(std::uint32_t number, std::string_view name, std::span<const std::byte> value) {
  writer out(16 + name.size() + value.size());
  out.put(publish_type);
  out.put(number);
  out.put_name(name);
  out.put_value(value);
  return out.take();
}

bool is_value_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= max_store_name_bytes &&
         std::ranges::all_of(name, [](char each) { return each >= 0x20 && each < 0x7f; });
}

digest prove(std::string_view secret, std::string_view side, const store_hello& hello,
             const nonce& of_store) {
  writer text(64 + side.size() + hello.name.size());
  text.put_name(side);
  text.put_bytes(hello.random);
  text.put_bytes(of_store);
  text.put(static_cast<std::uint8_t>(hello.entry));
  text.put(hello.rank);
  text.put(hello.size);
  text.put_name(hello.name);
  return hmac_sha256(bytes_of(secret), text.take());
}

blob encode_left(std::span<const std::uint32_t> ranks) { return encode_ranks(left_type, ranks); }

blob encode_returned(std::span<const std::uint32_t> ranks) {
  return encode_ranks(returned_type, ranks);
}

blob encode_exchange(const store_exchange& of, std::span<const std::span<const std::byte>> parts) {
  writer out(16 + of.name.size() + bytes_of_parts(parts));
  out.put(exchange_type);
  out.put(of.number);
  out.put(of.timeout_ms);
  out.put_name(of.name);
  out.put_parts(parts);
  return out.take();
}

blob encode_agreement(const store_agreement& of,
                      std::span<const std::span<const std::byte>> parts) {
  writer out(32 + of.name.size() + of.awaited.size() * sizeof(std::uint32_t) +
             bytes_of_parts(parts));
  out.put(agreement_type);
  out.put(of.number);
  out.put(of.timeout_ms);
  out.put(static_cast<std::uint8_t>(of.kind));
  out.put(of.renewal);
  out.put_ranks(of.awaited);
  out.put_name(of.name);
  out.put_parts(parts);
  return out.take();
}

std::size_t agreed_bytes(std::span<const std::uint32_t> ranks,
                         std::span<const std::span<const std::byte>> parts) noexcept {
  return 1 + (2 + ranks.size()) * sizeof(std::uint32_t) + bytes_of_parts(parts);
}

blob encode_agreed(std::uint32_t renewal, std::span<const std::uint32_t> ranks,
                   std::span<const std::span<const std::byte>> parts) {
  writer out(agreed_bytes(ranks, parts));
  out.put(agreed_type);
  out.put(renewal);
  out.put_ranks(ranks);
  out.put_parts(parts);
  return out.take();
}

blob encode_numbered(std::uint32_t number, std::span<const std::byte> answer) {
  writer out(bytes_of_number + answer.size());
  out.put(numbered_type);
  out.put(number);
  out.put_bytes(answer);
  return out.take();
}

blob encode_admission(std::size_t max_message_bytes) {
  std::array<std::byte, sizeof(std::uint64_t)> limit{};
  store_network_order(limit.data(), std::uint64_t{max_message_bytes});
  const std::span<const std::byte> part = limit;
  return encode_done(std::span(&part, 1));
}

result<std::size_t> read_admission(const blobs& admission) {
  if (admission.size() != 1) return broken("the admission of a rank has no limit");
  byte_reader from(admission.front());
  const auto limit = from.take<std::uint64_t>();
  if (!limit || !from.rest().empty() || *limit < store_options::min_message_bytes ||
      *limit > store_options::most_message_bytes)
    return broken("the admission of a rank has an invalid limit");
  return static_cast<std::size_t>(*limit);
}

std::size_t done_bytes(std::span<const std::span<const std::byte>> parts) noexcept {
  return 1 + bytes_of_parts(parts);
}

blob encode_done(std::span<const std::span<const std::byte>> parts) {
  writer out(done_bytes(parts));
  out.put(done_type);
  out.put_parts(parts);
  return out.take();
}

result<store_request> decode_request(std::span<const std::byte> bytes) {
  checked_reader from(bytes);
  store_request out;
  switch (const auto type = from.take<std::uint8_t>()) {
    case hello_type:
      out = read_hello(from);
      break;
    case exchange_type:
      out = read_exchange(from);
      break;
    case proof_type:
      out = store_proof{.proof = from.take_array<sizeof(digest)>()};
      break;
    case agreement_type:
      out = read_agreement(from);
      break;
    case publish_type:
      out = read_publish(from);
      break;
    case withdraw_type:
      out = read_withdraw(from);
      break;
    case find_type:
      out = read_find(from);
      break;
    case check_type:
      out = store_check{.number = from.take_number()};
      break;
    default:
      return broken(fmt::format("a request has the unknown type {}", type));
  }
  VERBENA_TRY_VOID(from.end());
  return out;
}

result<store_message> decode_message(std::span<const std::byte> bytes) {
  checked_reader from(bytes);
  if (from.take<std::uint8_t>() != numbered_type) {
    VERBENA_TRY(auto news, decode_answer(bytes));
    return store_message{.number = 0, .what = std::move(news)};
  }
  const auto number = from.take_number();
  const auto type = from.take<std::uint8_t>();
  if (number == 0 || (type != done_type && type != failed_type && type != agreed_type))
    return broken(fmt::format("an answer with the number {} has the type {}", number, type));
  VERBENA_TRY(auto answer, decode_answer(bytes.subspan(bytes_of_number)));
  return store_message{.number = number, .what = std::move(answer)};
}

result<store_answer> decode_answer(std::span<const std::byte> bytes) {
  checked_reader from(bytes);
  const auto type = from.take<std::uint8_t>();
  if (type == done_type) {
    store_answer out = from.take_parts();
    VERBENA_TRY_VOID(from.end());
    return out;
  }
  if (type == left_type || type == returned_type) {
    auto ranks = from.take_ranks();
    VERBENA_TRY_VOID(from.end());
    if (type == left_type) return store_answer(store_left{.ranks = std::move(ranks)});
    return store_answer(store_returned{.ranks = std::move(ranks)});
  }
  if (type == agreed_type) {
    store_agreed out;
    out.renewal = from.take<std::uint32_t>();
    out.ranks = from.take_ranks();
    out.parts = from.take_parts();
    VERBENA_TRY_VOID(from.end());
    return store_answer(std::move(out));
  }
  if (type == reply_type) {
    store_reply out;
    out.number = from.take<std::uint32_t>();
    out.outcome = from.take_up_to(value_outcome::full);
    out.detail = from.take<std::uint64_t>();
    out.value = from.take_value();
    VERBENA_TRY_VOID(from.end());
    return store_answer(std::move(out));
  }
  if (type == challenge_type) {
    store_challenge out;
    out.random = from.take_array<sizeof(nonce)>();
    out.proof = from.take_array<sizeof(digest)>();
    VERBENA_TRY_VOID(from.end());
    return store_answer(out);
  }
  if (type != failed_type) return broken(fmt::format("an answer has the unknown type {}", type));
  store_failed out;
  const auto why = from.take<std::uint8_t>();
  out.why = static_cast<store_failure>(why);
  out.rank = from.take<std::uint32_t>();
  out.ranks = from.take_ranks();
  out.name = from.take_name();
  VERBENA_TRY_VOID(from.end());
  if (why < static_cast<std::uint8_t>(store_failure::missing) ||
      why > static_cast<std::uint8_t>(store_failure::forming))
    return broken(fmt::format("an answer has the unknown failure {}", why));
  return store_answer(std::move(out));
}

}  // namespace verbena::inline VERBENA_ABI::net::detail
