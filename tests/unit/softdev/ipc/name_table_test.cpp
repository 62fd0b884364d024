// SPDX-License-Identifier: MIT
#include "softdev/ipc/name_table.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace verbena::softdev {
namespace {

namespace fs = std::filesystem;
constexpr std::uint32_t some_entry = name_entries::slots + 7;
constexpr uid_t other_user = 54'321;

/// Sets HOME to an empty directory, and unsets XDG_RUNTIME_DIR.
class name_tables : public ::testing::Test {
 protected:
  name_tables() {
    std::string name = (fs::temp_directory_path() / "verbena-home-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category());
    home = name;
    ::setenv("HOME", home.c_str(), 1);
    ::unsetenv("XDG_RUNTIME_DIR");
  }
  ~name_tables() override {
    std::error_code ignored;
    fs::remove_all(home, ignored);
    if (before) ::setenv("HOME", before->c_str(), 1);
    if (runtime_before) ::setenv("XDG_RUNTIME_DIR", runtime_before->c_str(), 1);
  }
  static std::optional<std::string> value_of(const char* variable) {
    const char* const value = std::getenv(variable);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }
  static name_table table() { return name_table::open(if_missing::create).value(); }
  [[nodiscard]] fs::path directory() const { return home / ".cache" / "verbena"; }
  /// Returns the only file in the directory.
  [[nodiscard]] fs::path file() const { return fs::directory_iterator(directory())->path(); }
  static void expect_refused(const std::string& words) {
    const auto opened = name_table::open(if_missing::create);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code(), EACCES);
    EXPECT_NE(opened.error().message().find(words), std::string::npos)
        << opened.error().message() << "\nexpected: " << words;
  }

  std::optional<std::string> before = value_of("HOME");
  std::optional<std::string> runtime_before = value_of("XDG_RUNTIME_DIR");
  fs::path home;
};

TEST_F(name_tables, entry_locked_by_one_table_is_in_use_for_others) {
  const name_table first = table();
  const name_table second = table();
  EXPECT_EQ(first.lock(some_entry), 0);
  EXPECT_EQ(second.lock(some_entry), EADDRINUSE);
  EXPECT_EQ(second.lock(some_entry + 1), 0);
  EXPECT_EQ(first.lock(some_entry + 1), EADDRINUSE);
}

TEST_F(name_tables, entry_is_free_after_its_table_is_closed) {
  std::optional<name_table> first = table();
  const name_table second = table();
  EXPECT_EQ(first->lock(some_entry), 0);
  first.reset();
  EXPECT_EQ(second.lock(some_entry), 0);
}

TEST_F(name_tables, entry_is_free_after_its_process_was_killed) {
  const name_table mine = table();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    const name_table theirs = table();
    const char held = theirs.lock(some_entry) == 0 ? 1 : 0;
    if (::write(ready[1], &held, 1) == 1) ::pause();
    ::_exit(1);
  }
  char held = 0;
  EXPECT_EQ(::read(ready[0], &held, 1), 1);
  EXPECT_EQ(held, 1);
  EXPECT_EQ(mine.lock(some_entry), EADDRINUSE);
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_EQ(mine.lock(some_entry), 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(name_tables, exactly_one_of_many_processes_gets_an_entry_of_a_new_table) {
  constexpr int processes = 16;
  int start[2];
  int done[2];
  ASSERT_EQ(::pipe(start), 0);
  ASSERT_EQ(::pipe(done), 0);
  std::vector<pid_t> all;
  for (int i = 0; i < processes; ++i) {
    all.push_back(::fork());
    if (all.back() != 0) continue;
    char go = 0;
    ::close(start[1]);
    static_cast<void>(!::read(start[0], &go, 1));  // the end of the pipe
    const auto made = name_table::open(if_missing::create);
    const char result = !made ? 'e' : made->lock(some_entry) == 0 ? '1' : '0';
    if (::write(done[1], &result, 1) == 1) ::pause();
    ::_exit(1);
  }
  ::close(start[0]);
  ::close(start[1]);
  std::string results;
  for (int i = 0; i < processes; ++i) {
    char result = 0;
    ASSERT_EQ(::read(done[0], &result, 1), 1);
    results += result;
  }
  EXPECT_EQ(std::ranges::count(results, '1'), 1) << results;
  EXPECT_EQ(std::ranges::count(results, '0'), processes - 1) << results;
  for (const pid_t each : all) {
    ::kill(each, SIGKILL);
    ::waitpid(each, nullptr, 0);
  }
  ::close(done[0]);
  ::close(done[1]);
}

TEST_F(name_tables, published_name_is_found_by_other_tables) {
  const name_table first = table();
  const name_token name = name_token::draw();
  ASSERT_EQ(first.lock(some_entry), 0);
  EXPECT_EQ(first.publish(some_entry, name), 0);
  const auto second = name_table::open(if_missing::fail);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->find(some_entry), name);
  EXPECT_FALSE(second->find(some_entry + 1));
  EXPECT_EQ(first.publish(some_entry, {}), 0);
  EXPECT_FALSE(second->find(some_entry));
}

TEST_F(name_tables, open_of_missing_table_creates_nothing) {
  const auto opened = name_table::open(if_missing::fail);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ENOENT);
  EXPECT_TRUE(fs::is_empty(home));
}

TEST_F(name_tables, table_is_only_accessible_to_its_user) {
  const mode_t mask = ::umask(0);
  static_cast<void>(table());
  ::umask(mask);
  EXPECT_EQ(fs::status(directory()).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(file()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(name_tables, runtime_directory_is_used_without_a_home) {
  ::setenv("XDG_RUNTIME_DIR", home.c_str(), 1);
  ::setenv("HOME", "/proc/self/no such directory", 1);
  EXPECT_TRUE(name_table::open(if_missing::create));
  EXPECT_TRUE(fs::is_directory(home / "verbena"));
  ::setenv("HOME", "/proc", 1);  // no directory can be made there
  EXPECT_TRUE(name_table::open(if_missing::fail));
  ::unsetenv("HOME");
  EXPECT_TRUE(name_table::open(if_missing::fail));
}

TEST_F(name_tables, refusal_without_a_directory_tells_why) {
  ::unsetenv("HOME");
  const auto opened = name_table::open(if_missing::create);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), ENOENT);
  EXPECT_NE(opened.error().message().find("HOME is not set; XDG_RUNTIME_DIR is not set"),
            std::string::npos)
      << opened.error().message();
}

TEST_F(name_tables, relative_home_is_not_used) {
  ::setenv("HOME", "somewhere", 1);
  EXPECT_FALSE(name_table::open(if_missing::create));
}

TEST_F(name_tables, directory_that_is_a_symbolic_link_is_refused) {
  fs::create_directories(home / "elsewhere");
  fs::create_directories(home / ".cache");
  fs::permissions(home / "elsewhere", fs::perms::owner_all);
  fs::create_directory_symlink(home / "elsewhere", directory());
  EXPECT_FALSE(name_table::open(if_missing::create));
  EXPECT_TRUE(fs::is_empty(home / "elsewhere"));
}

TEST_F(name_tables, directory_with_access_for_others_is_refused) {
  static_cast<void>(table());
  fs::permissions(directory(), fs::perms::group_exec, fs::perm_options::add);
  expect_refused("/.cache/verbena has mode 0710");
}

TEST_F(name_tables, home_that_every_user_can_write_is_refused) {
  fs::permissions(home, fs::perms::others_write, fs::perm_options::add);
  expect_refused("can be written by every user");
}

TEST_F(name_tables, table_that_is_a_symbolic_link_is_refused) {
  static_cast<void>(table());
  const fs::path name = file();
  fs::rename(name, home / "table");
  fs::create_symlink(home / "table", name);
  expect_refused("is a symbolic link");
}

TEST_F(name_tables, table_with_access_for_others_is_refused) {
  static_cast<void>(table());
  fs::permissions(file(), fs::perms::others_read, fs::perm_options::add);
  expect_refused("has mode 0604");
}

TEST_F(name_tables, table_with_a_second_name_is_refused) {
  static_cast<void>(table());
  fs::create_hard_link(file(), home / "table");
  expect_refused("has several names");
}

TEST_F(name_tables, table_that_is_no_file_is_refused) {
  static_cast<void>(table());
  const fs::path name = file();
  fs::remove(name);
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  expect_refused("has another file type");
}

TEST_F(name_tables, table_that_is_too_short_has_no_names) {
  const name_table first = table();
  ASSERT_EQ(first.publish(some_entry, name_token::draw()), 0);
  fs::resize_file(file(), some_entry * sizeof(name_token) + 5);
  EXPECT_FALSE(first.find(some_entry));
}

TEST_F(name_tables, files_of_another_user_are_refused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change the owner of a file";
  static_cast<void>(table());
  ASSERT_EQ(::chown(file().c_str(), other_user, other_user), 0);
  expect_refused("belongs to user 54321");
  ASSERT_EQ(::chown(file().c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(directory().c_str(), other_user, other_user), 0);
  expect_refused("belongs to user 54321");
  ASSERT_EQ(::chown(directory().c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(home.c_str(), other_user, other_user), 0);
  expect_refused("belongs to user 54321");
}

}  // namespace
}  // namespace verbena::softdev
