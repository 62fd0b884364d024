// SPDX-License-Identifier: MIT
#include "src/net/hmac.hpp"

#include <gtest/gtest.h>

#include <string>

#include "verbena/base/bytes.hpp"

namespace verbena::test {
namespace {

using net::detail::digest;

std::string hex(const digest& of) {
  std::string text;
  for (const std::byte each : of) {
    text += "0123456789abcdef"[std::to_integer<std::size_t>(each >> 4U)];
    text += "0123456789abcdef"[std::to_integer<std::size_t>(each & std::byte{15})];
  }
  return text;
}
std::string hash_of(const std::string& text) { return hex(net::detail::sha256(bytes_of(text))); }
std::string code_of(const std::string& key, const std::string& text) {
  return hex(net::detail::hmac_sha256(bytes_of(key), bytes_of(text)));
}

// Test vectors of FIPS 180-4 and NIST.
TEST(hmac, sha256_of_the_examples_of_its_standard) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(hmac, codes_of_rfc_4231) {
  EXPECT_EQ(code_of(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(code_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      code_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(hmac, digests_that_differ_in_one_bit_are_not_equal) {
  const digest one = net::detail::sha256(bytes_of("x"));
  digest other = one;
  EXPECT_TRUE(net::detail::are_equal(one, other));
  other.back() ^= std::byte{1};
  EXPECT_FALSE(net::detail::are_equal(one, other));
}

}  // namespace
}  // namespace verbena::test
