// SPDX-License-Identifier: MIT
// join() with host names that the name server does not resolve in time. The test replaces
// getaddrinfo(3).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string_view>

#include "src/net/rendezvous.hpp"
#include "tests/unit/net/ranks.hpp"

namespace {

/// The lookups of names that end with ".slow.test". Threads: all functions may be called at the
/// same time.
class slow_names {
 public:
  /// Waits until the end of the test, if the name was looked up `answered` times before.
  /// Returns true if the lookup succeeds.
  [[nodiscard]] bool look_up() {
    std::unique_lock lock(mutex_);
    if (answered_ != 0) {
      --answered_;
      return true;
    }
    ended_.wait_for(lock, std::chrono::seconds(30), [this] { return has_ended_; });
    return false;
  }
  void begin(int answered) {
    const std::lock_guard lock(mutex_);
    answered_ = answered;
    has_ended_ = false;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    ended_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  int answered_ = 0;
  bool has_ended_ = true;
};

slow_names& names() {
  static slow_names all;
  return all;
}

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** found) {
  using function = decltype(&::getaddrinfo);
  static const auto real = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  const bool is_name = (hints == nullptr || (hints->ai_flags & AI_NUMERICHOST) == 0);
  if (!is_name || node == nullptr || !std::string_view(node).ends_with(".slow.test"))
    return real(node, service, hints, found);
  return names().look_up() ? real("192.0.2.1", service, hints, found) : EAI_NONAME;
}

namespace verbena::test {
namespace {

using testing_support::expect_error;

constexpr const char* no_answer = "the name server did not answer in time";

class slow_name : public ::testing::Test {
 protected:
  ~slow_name() override { names().end(); }
};

TEST_F(slow_name, of_the_host_of_a_rank_fails_join_at_its_deadline) {
  names().begin(0);
  const test_store store;
  const auto device = testing_support::open_soft();
  const auto pd = device.allocate_pd().value();
  const net::group_options options{.connect = net::connect_mode::on_first_use,
                                   .first_use = {.host = "node-a.slow.test"}};
  expect_error(net::group::join(pd, store.member(0, 1), deadline::after(3s), options), no_answer);
}

// The first lookup determines whether the store listens at all addresses.
TEST_F(slow_name, of_the_store_fails_rank_0_at_its_deadline) {
  names().begin(1);
  net::membership place{.rank = 0, .size = 1, .store = {.host = "node-a.slow.test"}};
  std::optional<net::store> own;
  expect_error(net::detail::meet_at_rank_0(place, own, deadline::after(3s), {}), no_answer);
}

TEST_F(slow_name, that_is_resolved_but_is_not_of_this_host_is_named_in_the_error) {
  names().begin(2);
  net::membership place{.rank = 0, .size = 1, .store = {.host = "node-a.slow.test"}};
  std::optional<net::store> own;
  expect_error(net::detail::meet_at_rank_0(place, own, test_deadline(), {}),
               "it is an address of the host node-a.slow.test");
}

}  // namespace
}  // namespace verbena::test
