// SPDX-License-Identifier: MIT
#include "softdev/fabric/records.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <vector>

#include "softdev/core/transport/rules.hpp"

namespace verbena::softdev::records {
namespace {

using bytes = std::vector<std::byte>;

std::uint32_t any32(std::mt19937_64& random) { return static_cast<std::uint32_t>(random()); }

bytes encoded(const message& what) {
  bytes out(request_bytes(what.transport, what.opcode));
  std::span room(out);
  put_request(room, what);
  EXPECT_TRUE(room.empty());
  return out;
}

bytes encoded(const fragment_header& to, const response& what) {
  bytes out(answer_bytes(what));
  std::span room(out);
  put_answer(room, to, what);
  EXPECT_TRUE(room.empty());
  return out;
}

std::optional<message> decoded(std::span<const std::byte>& from) {
  message what;
  return take_request(from, what) ? std::optional(what) : std::nullopt;
}

// A valid request with the smallest possible payload.
struct sent {
  message what;
  bytes with_payload;
};
sent some_request(std::mt19937_64& random) {
  message what;
  do {
    what.transport = static_cast<transport>(2 + random() % 3);
    what.opcode = static_cast<opcode>(random() % 7);
  } while (!rules_of(what.transport).carries(what.opcode));
  what.solicited = random() % 2 == 0;
  what.signaled = random() % 2 == 0;
  what.attempt = static_cast<std::uint16_t>(random());
  what.pkey = static_cast<std::uint16_t>(random());
  what.destination_lid = static_cast<std::uint16_t>(random());
  what.source_qpn = any32(random);
  what.destination_qpn = any32(random);
  what.psn = any32(random);
  what.immediate = any32(random);
  (rules_of(what.transport).routed ? what.qkey : what.remote_key) = any32(random);
  what.length = is_atomic(what.opcode) ? 8 : grh_bytes + any32(random) % 100;
  if (rules_of(what.transport).routed)
    what.origin = {.lid = static_cast<std::uint16_t>(random()),
                   .service_level = static_cast<std::uint8_t>(random()),
                   .path_bits = static_cast<std::uint8_t>(random()),
                   .has_grh = random() % 2 == 0};
  else
    what.remote_address = random();
  if (is_atomic(what.opcode)) {
    what.compare_or_add = random();
    what.swap = random();
  }
  bytes all = encoded(what);
  if (!is_read_or_atomic(what.opcode)) all.push_back(std::byte{0x5a});
  return {what, all};
}

TEST(ring_records, requests_round_trip_and_truncated_ones_are_refused) {
  std::mt19937_64 random(20261121);
  for (int i = 0; i < 500; ++i) {
    const auto [what, all] = some_request(random);
    std::span<const std::byte> rest(all);
    const auto taken = decoded(rest);
    ASSERT_TRUE(taken) << i;
    EXPECT_EQ(encoded(*taken), encoded(what));
    EXPECT_EQ(taken->origin.lid, what.origin.lid);
    EXPECT_EQ(taken->qkey, what.qkey);
    EXPECT_EQ(taken->remote_key, what.remote_key);
    EXPECT_EQ(taken->origin.path_bits, what.origin.path_bits);
    EXPECT_EQ(rest.size(), all.size() - request_bytes(what.transport, what.opcode));
    for (std::size_t size = 0; size < all.size(); ++size) {
      rest = std::span(all).first(size);
      EXPECT_FALSE(decoded(rest)) << i << ": " << size;
    }
  }
}

TEST(ring_records, request_with_flipped_bits_is_decoded_or_refused) {
  std::mt19937_64 random(20261122);
  for (int i = 0; i < 60; ++i) {
    const auto [what, all] = some_request(random);
    for (std::size_t bit = 0; bit < all.size() * 8; ++bit) {
      bytes flipped = all;
      flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      std::span<const std::byte> rest(flipped);
      const auto taken = decoded(rest);
      if (!taken) continue;
      EXPECT_TRUE(rules_of(taken->transport).carries(taken->opcode)) << bit;
      EXPECT_LE(taken->length, limits::max_message_bytes) << bit;
      bytes again = encoded(*taken);
      again.insert(again.end(), rest.begin(), rest.end());
      // The origin of a datagram has unused bits.
      if (!rules_of(taken->transport).routed) {
        EXPECT_EQ(again, flipped) << bit;
      }
      rest = again;
      const auto twice = decoded(rest);
      ASSERT_TRUE(twice) << bit;
      EXPECT_EQ(encoded(*twice), encoded(*taken)) << bit;
    }
  }
}

TEST(ring_records, references_round_trip_and_invalid_ones_are_refused) {
  std::mt19937_64 random(20261125);
  for (int i = 0; i < 200; ++i) {
    message what;
    what.opcode = std::array{opcode::send, opcode::send_with_imm, opcode::rdma_write,
                             opcode::rdma_write_with_imm}[random() % 4];
    what.psn = any32(random);
    std::vector<sge> elements(1 + random() % limits::max_sges);
    for (sge& each : elements) {
      each = {random(), 1 + any32(random) % 10'000, any32(random)};
      what.length += each.length;
    }
    const auto encode = [&] {
      bytes out(reference_bytes(what.transport, what.opcode, elements.size()));
      std::span room(out);
      put_reference(room, what, 99, elements.size());
      for (const sge& each : elements) put(room, each);
      EXPECT_TRUE(room.empty());
      return out;
    };
    const bytes all = encode();
    message taken;
    payload_reference payload;
    ASSERT_TRUE(take_reference(all, taken, payload));
    EXPECT_EQ(encoded(taken), encoded(what));
    EXPECT_EQ(payload.generation, 99U);
    ASSERT_EQ(payload.count, elements.size());
    for (std::size_t at = 0; at < elements.size(); ++at) {
      EXPECT_EQ(payload.elements[at].address, elements[at].address);
      EXPECT_EQ(payload.elements[at].length, elements[at].length);
      EXPECT_EQ(payload.elements[at].lkey, elements[at].lkey);
    }
    const auto is_refused = [](const bytes& from) {
      message out;
      payload_reference ignored;
      return !take_reference(from, out, ignored);
    };
    for (std::size_t size = 0; size < all.size(); ++size)
      EXPECT_TRUE(is_refused({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(size)}));
    ++what.length;
    EXPECT_TRUE(is_refused(encode())) << "the elements are shorter";
    what.length -= 2;
    EXPECT_TRUE(is_refused(encode())) << "the elements are longer";
    ++what.length;
    for (const transport kind : {transport::uc, transport::ud, transport::srd}) {
      what.transport = kind;
      EXPECT_TRUE(is_refused(encode()));
    }
    what.transport = transport::rc;
    what.length -= elements[0].length;
    elements[0].length = 0;
    EXPECT_TRUE(is_refused(encode())) << "an element is empty";
    elements.resize(limits::max_sges + 1, {1, 1, 1});
    what.length = 0;
    for (const sge& each : elements) what.length += each.length;
    EXPECT_TRUE(is_refused(encode())) << "too many elements";
    what.opcode = opcode::rdma_read;
    EXPECT_TRUE(is_refused(encode()));
    elements.clear();
    what = {};
    EXPECT_TRUE(is_refused(encode())) << "no payload";
  }
}

TEST(ring_records, answers_round_trip_and_flipped_bits_are_decoded_or_refused) {
  std::mt19937_64 random(20261123);
  std::size_t refused = 0;
  for (int i = 0; i < 60; ++i) {
    const fragment_header to{any32(random), any32(random), any32(random), any32(random) & 0xffffU,
                             0};
    response what{.outcome = static_cast<verdict>(random() % 10),
                  .rnr_timer = static_cast<std::uint8_t>(random() % 32),
                  .original = random(),
                  .why = {.why = static_cast<reason>(any32(random)),
                          .key = any32(random),
                          .detail = any32(random),
                          .extra = any32(random)}};
    if (i % 2 == 0) what.why.address = random();
    const bytes all = encoded(to, what);
    for (std::size_t size = 0; size < sizeof(answer_header); ++size) {
      auto rest = std::span<const std::byte>(all).first(size);
      EXPECT_FALSE(take_answer(rest)) << size;
    }
    for (std::size_t bit = 0; bit <= all.size() * 8; ++bit) {  // the last iteration flips no bit
      bytes flipped = all;
      if (bit < all.size() * 8) flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      std::span<const std::byte> rest(flipped);
      const auto taken = take_answer(rest);
      refused += taken ? 0 : 1;
      ASSERT_TRUE(taken || bit < all.size() * 8);
      if (!taken) continue;
      bytes again = encoded(taken->to, taken->what);
      again.resize(std::max(again.size(), flipped.size()));  // trailing zeros are omitted
      EXPECT_EQ(again, flipped) << bit;
    }
  }
  EXPECT_GT(refused, 60U);
}

}  // namespace
}  // namespace verbena::softdev::records
