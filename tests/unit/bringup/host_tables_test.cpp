// SPDX-License-Identifier: MIT
// The addresses of the host's interfaces are not read for each connection.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>

#include <algorithm>
#include <chrono>

#include "src/bringup/gather_offer.hpp"
#include "verbena/base/sanitizers.hpp"
#include "verbena/bringup/negotiation.hpp"
#include "verbena/verbs/device_list.hpp"

// Sanitizers have their own getifaddrs().
#if !defined(VERBENA_ADDRESS_SANITIZER) && !defined(VERBENA_THREAD_SANITIZER)

namespace {
thread_local int reads = 0;
thread_local bool are_hidden = false;
}  // namespace

extern "C" int getifaddrs(ifaddrs** first) noexcept {
  ++reads;
  *first = nullptr;
  if (are_hidden) return 0;
  static const auto original =
      reinterpret_cast<decltype(&::getifaddrs)>(::dlsym(RTLD_NEXT, "getifaddrs"));
  return original(first);
}

namespace verbena {
namespace {

using namespace std::chrono_literals;

class host_tables : public ::testing::Test {
 protected:
  ~host_tables() override { are_hidden = false; }
  bringup::offer gather() {
    return bringup::detail::gather_offer(bringup::detail::side_of(queue_)).value();
  }

 private:
  context device_ = open_device("soft0").value();
  protection_domain pd_ = device_.allocate_pd().value();
  completion_queue completions_ = device_.create_cq(1).value();
  prepared_queue_pair<rc> queue_ = pd_.create_qp<rc>(completions_, completions_).value();
};

TEST_F(host_tables, are_read_at_most_once_per_second) {
  constexpr int offers = 1000;
  static_cast<void>(gather());
  const auto begin = std::chrono::steady_clock::now();
  reads = 0;
  for (int i = 0; i < offers; ++i) static_cast<void>(gather());
  const auto seconds = (std::chrono::steady_clock::now() - begin) / 1s;
  EXPECT_LE(reads, seconds + 1);
}

// The address of an interface can be added less than one second before an offer.
TEST_F(host_tables, are_read_again_for_an_address_that_they_do_not_have) {
  const auto all = gather();
  are_hidden = true;
  // The present tables are used for at most one second.
  const auto until = deadline::after(60s);
  auto hidden = gather();
  while (hidden.gids == all.gids && !until.expired()) hidden = gather();
  ASSERT_NE(hidden.gids, all.gids);
  are_hidden = false;
  EXPECT_EQ(gather().gids, all.gids);
}

}  // namespace
}  // namespace verbena

#endif
