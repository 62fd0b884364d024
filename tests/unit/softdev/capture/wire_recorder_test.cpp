// SPDX-License-Identifier: MIT
#include "softdev/capture/wire_recorder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace verbena::softdev::capture {
namespace {

constexpr std::size_t file_header_bytes = 72;

/// The parts of a packet block that are compared: direction (epb_flags), last byte of the packet,
/// comment.
struct stored_packet {
  std::uint32_t direction = 0;
  int last = 0;
  std::string comment;

  bool operator==(const stored_packet&) const = default;
};

class softdev_wire_recorder : public testing::Test {
 protected:
  static std::string make_folder() {
    std::string folder = "/tmp/verbena-test-XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    return folder;
  }
  ~softdev_wire_recorder() override { std::filesystem::remove_all(folder_); }

  /// Returns a packet of 20 bytes whose last byte is `mark`.
  [[nodiscard]] static std::array<std::byte, 20> marked(int mark) {
    std::array<std::byte, 20> out{};
    out.back() = static_cast<std::byte>(mark);
    return out;
  }
  void send(int mark) {
    const auto packet = marked(mark);
    recorder_.sending();
    recorder_.sent({}, packet);
    recorder_.sent_all();
  }
  template <class Value>
  static Value at(const std::string& text, std::size_t offset) {
    Value value{};
    if (offset + sizeof value <= text.size())
      std::memcpy(&value, text.data() + offset, sizeof value);
    return value;
  }
  [[nodiscard]] std::string content() const {
    std::ostringstream all;
    all << std::ifstream(file_, std::ios::binary).rdbuf();
    return all.str();
  }
  [[nodiscard]] std::vector<stored_packet> stored() const {
    const std::string all = content();
    std::vector<stored_packet> found;
    for (std::size_t block = file_header_bytes; block < all.size();) {
      const auto length = at<std::uint32_t>(all, block + 4);
      if (length < 12) break;
      const auto captured = at<std::uint32_t>(all, block + 20);
      stored_packet one{.last = all[block + 28 + captured - 1]};
      std::size_t option = block + 28 + (captured + 3) / 4 * 4;
      while (option + 4 < block + length) {
        const auto kind = at<std::uint16_t>(all, option);
        const auto bytes = at<std::uint16_t>(all, option + 2);
        if (kind == 1) one.comment = all.substr(option + 4, bytes);
        if (kind == 2) one.direction = at<std::uint32_t>(all, option + 4);
        if (kind == 0) break;
        option += 4U + (bytes + 3U) / 4U * 4U;
      }
      found.push_back(one);
      block += length;
    }
    return found;
  }

  const std::string folder_ = make_folder();
  const std::string file_ = folder_ + "/packets";
  frame_writer frames_{capture_file::open(file_).value(), capture_file::max_captured_bytes};
  wire_recorder recorder_{frames_};
};

TEST_F(softdev_wire_recorder, packets_have_their_direction_and_what_became_of_them) {
  const auto one = marked(1);
  const auto two = marked(2);
  recorder_.arrived({}, one);
  recorder_.settled({});
  recorder_.arrived({}, two);
  recorder_.settled("dropped_icrc");
  recorder_.settled_all();
  send(3);
  EXPECT_EQ(stored(), (std::vector<stored_packet>{{1, 1, ""}, {1, 2, "dropped_icrc"}, {2, 3, ""}}));
}

TEST_F(softdev_wire_recorder, packet_precedes_those_that_it_causes) {
  const auto one = marked(1);
  recorder_.arrived({}, one);
  send(2);
  recorder_.settled({});
  recorder_.settled_all();
  EXPECT_EQ(stored(), (std::vector<stored_packet>{{1, 1, ""}, {2, 2, ""}}));
}

TEST_F(softdev_wire_recorder, packet_keeps_its_reason_while_another_thread_sends) {
  const auto one = marked(1);
  recorder_.arrived({}, one);
  std::thread([this] { send(2); }).join();
  recorder_.settled("dropped_busy");
  recorder_.settled_all();
  EXPECT_EQ(stored(), (std::vector<stored_packet>{{2, 2, ""}, {1, 1, "dropped_busy"}}));
}

TEST_F(softdev_wire_recorder, packet_that_was_forwarded_is_not_stored) {
  const auto one = marked(1);
  recorder_.arrived({}, one);
  recorder_.dismissed();
  recorder_.settled_all();
  EXPECT_TRUE(stored().empty());
}

TEST_F(softdev_wire_recorder, datagram_that_is_too_long_is_cut) {
  const std::vector<std::byte> longest(65'507);
  recorder_.arrived({}, longest);
  recorder_.settled("dropped_malformed");
  recorder_.settled_all();
  const std::string all = content();
  EXPECT_EQ(at<std::uint32_t>(all, file_header_bytes + 20), capture_file::max_captured_bytes);
  EXPECT_EQ(at<std::uint32_t>(all, file_header_bytes + 24), 14 + 48 + longest.size());
}

}  // namespace
}  // namespace verbena::softdev::capture
