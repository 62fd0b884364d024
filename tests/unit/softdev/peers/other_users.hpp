// SPDX-License-Identifier: MIT
// Users that no other test uses, and another user who takes the names of the first one.
#pragma once

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "softdev/core/process_slot.hpp"
#include "softdev/ipc/local_socket.hpp"
#include "softdev/peers/slot_claim.hpp"
#include "tests/unit/softdev/peers/link_pair.hpp"

namespace verbena::softdev::testing {

inline constexpr uid_t squatting_user = 54'322;
inline constexpr int skipped = 77;

/// Returns a user that no other test uses, so that all its names can be taken. To be called in the
/// process that starts the others.
inline uid_t crowded_user() {
  static const uid_t user = 1'000'000 + static_cast<uid_t>(::getpid());
  return user;
}

/// Root can become each user, and have a descriptor for each name.
inline bool may_open_all_names() {
  static_cast<void>(crowded_user());  // the same one in all children
  rlimit limit{16'384, 16'384};
  return ::geteuid() == 0 && ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// Has this process use no private directory.
inline void forget_home() {
  ::unsetenv("HOME");
  ::unsetenv("XDG_RUNTIME_DIR");
}

/// A home directory of a user, for this process and its children from now on.
class home_directory {
 public:
  explicit home_directory(uid_t owner) {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-home-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category());
    path_ = name;
    if (::chown(path_.c_str(), owner, owner) != 0)
      throw std::system_error(errno, std::generic_category());
    ::setenv("HOME", path_.c_str(), 1);
    ::unsetenv("XDG_RUNTIME_DIR");
  }
  ~home_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  home_directory(const home_directory&) = delete;
  home_directory& operator=(const home_directory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Returns all slots that are claimed by public names.
inline std::vector<std::uint32_t> public_slots() {
  std::vector<std::uint32_t> all;
  for (std::uint32_t slot = 0; slot < slot_count; ++slot)
    if (is_public_slot(slot)) all.push_back(slot);
  return all;
}

/// Binds a name. Returns an empty descriptor if it is taken.
inline unique_fd take_name(const local_name& name, bool listening) {
  unique_fd socket = new_local_socket().socket;
  if (::bind(socket.get(), name.get(), name.length()) != 0) return {};
  if (listening && ::listen(socket.get(), 1) != 0) return {};
  return socket;
}

/// Takes the first names of the last `count` public slots of the crowded user; keeps the sockets.
inline std::vector<unique_fd> take_names(std::size_t count, bool listening,
                                         const char* kind = "soft0") {
  std::vector<unique_fd> taken;
  const std::vector<std::uint32_t> slots = public_slots();
  for (std::size_t i = slots.size() - count; i < slots.size(); ++i) {
    taken.push_back(
        take_name(local_name("verbena-%s.%u.%u", kind, crowded_user(), slots[i]), listening));
    if (!taken.back()) return {};
  }
  return taken;
}

/// A process of another user that holds `count` public names of the crowded user.
class squatter : public child {
 public:
  explicit squatter(std::size_t count, bool listening = true, const char* kind = "soft0")
      : child([=](int to_parent) {
          if (::setuid(squatting_user) != 0) return 1;
          const auto names = take_names(count, listening, kind);
          send_value(to_parent, names.size());
          ::pause();
          return 0;
        }) {
    EXPECT_EQ(read<std::size_t>(), count);
  }
};

/// Runs `body` in a child that is root and may have all descriptors. The result is that of the
/// test: `skipped` if this process cannot do that.
template <class Body>
int as_root(Body&& body) {
  child test([&](int) {
    if (!may_open_all_names()) return skipped;
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  return test.wait();
}

/// Runs `body` in a child that is the crowded user. Expects that it returns 0.
template <class Body>
void as_crowded_user(Body&& body) {
  child user([&](int) {
    if (::setuid(crowded_user()) != 0) return 1;
    const int status = body();
    return ::testing::Test::HasFailure() ? 2 : status;
  });
  EXPECT_EQ(user.wait(), 0);
}

}  // namespace verbena::softdev::testing
