// SPDX-License-Identifier: MIT
// Handles can be destroyed in any order. If a verb refuses to destroy an object, the error is
// logged and no parent is destroyed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/verbs/counting_provider.hpp"
#include "tests/unit/verbs/soft_device.hpp"
#include "verbena/sys/failing_provider.hpp"
#include "verbena/verbs/completion_channel.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/extended_completion_queue.hpp"
#include "verbena/verbs/prepared_queue_pair.hpp"
#include "verbena/verbs/protection_domain.hpp"
#include "verbena/verbs/queue_pair.hpp"

namespace verbena {
namespace {

using testing_support::counting_provider;
using testing_support::log_catcher;
using testing_support::open_soft;

/// One object of each type, made from each other.
struct everything {
  explicit everything(const provider& from) : opened(open_soft(from).value()) {
    pd = opened->allocate_pd().value();
    region = pd->allocate(4096, access::local_write).value();
    channel = opened->create_completion_channel().value();
    cq = opened->create_cq(16, {.channel = channel}).value();
    lazy_cq = opened->create_extended_cq(16, {.channel = channel}).value();
    auto prepared = pd->create_qp<rc>(*cq, *lazy_cq).value();
    const auto self = prepared.endpoint();
    qp = std::move(prepared).handshake(self).value();
  }

  std::optional<context> opened;
  std::optional<protection_domain> pd;
  std::optional<memory_region> region;
  std::optional<completion_channel> channel;
  std::optional<completion_queue> cq;
  std::optional<extended_completion_queue> lazy_cq;
  std::optional<queue_pair<rc>> qp;

  /// Destroys the handle with this number, 0 to 6.
  void drop(int which) {
    switch (which) {
      case 0:
        return opened.reset();
      case 1:
        return pd.reset();
      case 2:
        return region.reset();
      case 3:
        return channel.reset();
      case 4:
        return cq.reset();
      case 5:
        return lazy_cq.reset();
      default:
        return qp.reset();
    }
  }
};

// parity: ibverbs-25, ibverbs-302
TEST(teardown, handles_can_be_destroyed_in_any_order) {
  counting_provider counting(*soft_provider().value());
  const log_catcher log;
  std::array<int, 7> order = {0, 1, 2, 3, 4, 5, 6};
  int orders = 0;
  do {
    everything objects(counting.get());
    for (const int which : order) objects.drop(which);
    ASSERT_EQ(counting.live(), "");
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(orders, 5040);
  EXPECT_EQ(log.text(), "");
}

// Creation and destruction are logged at debug level.
std::vector<std::string> debug_lines;

// parity: ibverbs-rs-63
TEST(teardown, lifecycle_is_logged_at_debug_level) {
  debug_lines.clear();
  set_log_hook([](log_level level, std::string_view line, void*) {
    if (level == log_level::debug) debug_lines.emplace_back(line);
  });
  {
    const auto pd = testing_support::open_soft().allocate_pd().value();
  }
  set_log_hook(nullptr);
  EXPECT_EQ(debug_lines,
            (std::vector<std::string>{"created soft0", "created protection domain of soft0",
                                      "destroyed protection domain of soft0", "destroyed soft0"}));
}

// parity: ibverbs-100, ibverbs-226, ibverbs-99
TEST(teardown, parents_exist_until_last_child_is_destroyed) {
  counting_provider counting(*soft_provider().value());
  everything objects(counting.get());
  for (const int which : {0, 1, 2, 3, 4, 5}) objects.drop(which);
  EXPECT_FALSE(counting.is_live("ibv_reg_mr")) << "no object refers to the region";
  for (const char* needed : {"ibv_open_device", "ibv_alloc_pd", "ibv_create_comp_channel",
                             "ibv_create_cq", "ibv_create_cq_ex", "ibv_create_qp"})
    EXPECT_TRUE(counting.is_live(needed)) << needed;
  objects.drop(6);
  EXPECT_EQ(counting.live(), "");
}

/// Destroys all handles while `verb` fails; returns the objects that still exist.
std::string kept_when_refused(const char* verb, std::string& said) {
  counting_provider counting(*soft_provider().value());
  failing_provider failing(counting.get());
  const log_catcher log;
  {
    const everything objects(failing.get());
    failing.fail_verb(verb, EBUSY);
  }
  said = log.text();
  return counting.live();
}

void expect_kept(const char* verb, const std::vector<const char*>& makers) {
  std::string said;
  const std::string kept = kept_when_refused(verb, said);
  EXPECT_NE(said.find(std::string(verb) + " on "), std::string::npos) << said;
  EXPECT_NE(said.find("Device or resource busy (errno 16)"), std::string::npos) << said;
  EXPECT_NE(said.find("kept until the process ends"), std::string::npos) << said;
  std::string rest = kept;
  for (const char* maker : makers) {
    const auto place = rest.find(std::string(maker) + " ");
    ASSERT_NE(place, std::string::npos) << maker << " is not in: " << kept;
    rest.erase(place, std::string(maker).size() + 1);
  }
  EXPECT_EQ(rest, "") << "is kept for no reason when " << verb << " refuses";
}

// parity: ibverbs-303, rrddmma-14, ibverbs-rs-6
TEST(teardown, undestroyable_object_is_logged_and_kept_with_parents) {
  expect_kept("ibv_dereg_mr", {"ibv_reg_mr", "memory", "ibv_alloc_pd", "ibv_open_device"});
  expect_kept("ibv_dealloc_pd", {"ibv_alloc_pd", "ibv_open_device"});
  expect_kept("ibv_destroy_comp_channel", {"ibv_create_comp_channel", "ibv_open_device"});
  expect_kept("ibv_close_device", {"ibv_open_device"});
  expect_kept("ibv_destroy_cq",
              {"ibv_create_cq", "ibv_create_cq_ex", "ibv_create_comp_channel", "ibv_open_device"});
  expect_kept("ibv_destroy_qp", {"ibv_create_qp_ex", "ibv_create_cq", "ibv_create_cq_ex",
                                 "ibv_create_comp_channel", "ibv_alloc_pd", "ibv_open_device"});
}

}  // namespace
}  // namespace verbena
