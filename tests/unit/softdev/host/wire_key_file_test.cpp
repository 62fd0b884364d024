// SPDX-License-Identifier: MIT
#include "softdev/host/wire_key_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "softdev/host/settings.hpp"

namespace verbena::softdev {
namespace {

class wire_key_file : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "verbena-key-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  /// Returns the path of a new file.
  std::string file_with(std::string_view content, mode_t mode = 0600) {
    const std::string path = folder + "/key" + std::to_string(++files);
    std::ofstream(path) << content;
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  static void expect_refused(const std::string& path, int code, std::string_view text) {
    const auto key = read_wire_key(path);
    ASSERT_FALSE(key) << path;
    EXPECT_EQ(key.error().code(), code);
    const std::string said(key.error().message());
    EXPECT_NE(said.find("VERBENA_SOFTDEV_WIRE_KEY_FILE '" + path + "'"), std::string::npos) << said;
    EXPECT_NE(said.find(text), std::string::npos) << said;
  }

  std::string folder;
  int files = 0;
};

TEST_F(wire_key_file, content_of_a_private_file_is_the_secret) {
  const std::string secret(least_secret_bytes, 's');
  const auto key = read_wire_key(file_with(secret));
  ASSERT_TRUE(key) << key.error().message();
  EXPECT_EQ(read_wire_key(file_with(secret, 0400))->fingerprint(), key->fingerprint());
  EXPECT_NE(read_wire_key(file_with(secret + "\n"))->fingerprint(), key->fingerprint());
  EXPECT_TRUE(read_wire_key(file_with(std::string(most_secret_bytes, 's'))));
}

TEST_F(wire_key_file, file_of_another_size_is_refused) {
  expect_refused(file_with(""), EINVAL, "it has 0 bytes; a secret has 16 to 4096");
  expect_refused(file_with(std::string(least_secret_bytes - 1, 's')), EINVAL, "it has 15 bytes");
  expect_refused(file_with(std::string(most_secret_bytes + 1, 's')), EINVAL,
                 "it has more than 4096 bytes");
}

TEST_F(wire_key_file, file_that_other_users_can_open_is_refused) {
  for (const mode_t mode : {0640U, 0620U, 0604U, 0602U})
    expect_refused(file_with(std::string(32, 's'), mode), EACCES, "run \"chmod 600\"");
}

TEST_F(wire_key_file, file_of_another_user_is_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  const std::string path = file_with(std::string(32, 's'));
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  expect_refused(path, EACCES, "it belongs to user 12345, not to user 0");
}

TEST_F(wire_key_file, path_without_a_regular_file_is_refused_and_does_not_block) {
  expect_refused("", EINVAL, "the path is empty");
  expect_refused(folder + "/none", ENOENT, "head -c 32 /dev/urandom");
  expect_refused(folder, EINVAL, "not a regular file");
  const std::string fifo = folder + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_refused(fifo, EINVAL, "not a regular file");
}

TEST_F(wire_key_file, setting_without_a_path_is_not_taken_for_none) {
  const auto with_empty = read_settings([](const char* name) -> const char* {
    return std::string_view(name) == "VERBENA_SOFTDEV_WIRE_KEY_FILE" ? "" : nullptr;
  });
  EXPECT_EQ(with_empty.wire.key_file, "");
  const auto without = read_settings([](const char*) -> const char* { return nullptr; });
  EXPECT_EQ(without.wire.key_file, std::nullopt);
}

}  // namespace
}  // namespace verbena::softdev
