// SPDX-License-Identifier: MIT
// A thread that makes random calls of the C interface, legal and illegal ones, as far as libibverbs
// defines their outcome: no handle of a destroyed object, no unregistered memory for inline data.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/softdev/calls/request_ledger.hpp"
#include "tests/unit/softdev/shim/soft_device.hpp"

namespace verbena::softdev::testing {

/// Objects and counters of all threads. Threads: thread-safe.
struct shared_ground {
  static constexpr std::size_t places = 16;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;  ///< never destroyed by the threads
  ibv_cq* cq = nullptr;  ///< the same; polled by each thread
  request_ledger ledger;
  std::array<std::atomic<std::uint32_t>, places> qp_nums{};  ///< of any thread
  std::array<std::atomic<std::uint32_t>, places> keys{};
  std::array<std::atomic<std::uint64_t>, places> addresses{};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<bool> failed{false};
};

class random_caller {
 public:
  random_caller(shared_ground& ground, std::uint64_t seed);
  random_caller(const random_caller&) = delete;
  random_caller& operator=(const random_caller&) = delete;
  ~random_caller();

  /// Makes one call or a few.
  void step();
  /// Ends all queue pairs, waits for the completions that are owed, and destroys everything.
  void finish();
  /// Returns the last calls, the newest last.
  [[nodiscard]] std::string history() const;

 private:
  struct domain;
  struct region;
  struct channel;
  struct queue;
  struct shared_receives;
  struct pair;

  std::uint64_t random() { return random_(); }
  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  bool chance(std::uint32_t one_in) { return below(one_in) == 0; }
  /// Whether the next argument is a wrong one; seldom during a careful phase.
  bool mistake(std::uint32_t one_in) { return chance(careful_ ? 32 * one_in : one_in); }
  template <class Object>
  Object* any(const std::vector<std::unique_ptr<Object>>& of);

  void note(const char* verb, std::uint64_t number, int outcome);
  void fail(const std::string& what);
  void expect_code(const char* verb, int code, std::initializer_list<int> permitted);
  void expect_busy(const char* verb, int code, bool busy);

  void create_domain();
  void destroy_domain();
  void create_region();
  void change_region();
  void destroy_region();
  void create_channel();
  void destroy_channel();
  void create_queue();
  void change_queue();
  void destroy_queue();
  void create_shared();
  void change_shared();
  void destroy_shared();
  void create_pair();
  void change_pair();
  void bring_up_pair();
  void query_pair();
  void destroy_pair();
  void post_send();
  void post_extended();
  void post_receive();
  void post_shared();
  void poll();
  void arm();
  void take_events();

  int modify(pair& which, ibv_qp_attr& attributes, int mask);
  ibv_qp_attr random_attributes();
  ibv_qp_state state_of(pair& which);
  struct target {
    std::uint64_t address = 0;
    std::uint32_t key = 0;
  };
  target random_target(const pair& which);
  region* region_for(const domain* parent);
  ibv_sge random_slice(const domain* parent, bool inline_data);
  ibv_send_wr random_request(pair& which, std::vector<ibv_sge>& slices);
  void drain(pair& which);
  void poll_queue(ibv_cq* which, ibv_cq_ex* extended);
  void poll_all();
  void remove_pair(pair& which);

  shared_ground& ground_;
  std::mt19937_64 random_;
  bool careful_ = true;
  std::vector<std::byte> inline_source_;
  std::vector<std::unique_ptr<domain>> domains_;
  std::vector<std::unique_ptr<region>> regions_;
  std::vector<std::unique_ptr<channel>> channels_;
  std::vector<std::unique_ptr<queue>> queues_;
  std::vector<std::unique_ptr<shared_receives>> shared_;
  std::vector<std::unique_ptr<pair>> pairs_;
  std::array<std::string, 24> history_;
  std::uint64_t noted_ = 0;
};

}  // namespace verbena::softdev::testing
