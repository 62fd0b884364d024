// SPDX-License-Identifier: MIT
// Requests start under locks of their queue pairs, and commands take these locks, too. The request
// therefore waits until a separate thread has executed the command.
#include "softdev/shim/triggered_commands.hpp"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "src/base/quiet_thread.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

// The commands of a host and their thread. Never destroyed, like the host. Threads: thread-safe.
class command_runner final : public command_observer {
 public:
  explicit command_runner(host& home) : home_(home) {}

  [[nodiscard]] const host& home() const noexcept { return home_; }
  // Starts the thread unless it runs. Returns 0 or an errno.
  [[nodiscard]] int start() {
    const std::lock_guard lock(mutex_);
    if (started_) return 0;
    pthread_t thread;
    const int failed = verbena::detail::start_quiet_thread(thread, &run, this, "verbena-faults");
    if (failed != 0) return failed;
    pthread_detach(thread);
    started_ = true;
    return 0;
  }
  // Stores a command. Returns its number for rules.
  [[nodiscard]] std::uint32_t add(command act) {
    const std::lock_guard lock(mutex_);
    commands_.push_back(std::move(act));
    return static_cast<std::uint32_t>(commands_.size());
  }
  // Called when a request of the queue pair begins to wait for the command.
  void triggered(queue_pair& which, std::uint32_t command) override {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back({.qp_num = which.number(), .command = command});
    }
    changed_.notify_one();
  }

 private:
  struct request {
    std::uint32_t qp_num = 0;
    std::uint32_t command = 0;
  };

  static void* run(void* self) {
    static_cast<command_runner*>(self)->loop();
    return nullptr;
  }
  [[noreturn]] void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !waiting_.empty(); });
      const request next = waiting_.front();
      waiting_.pop_front();
      const command& act = commands_[next.command - 1];  // push_back to a deque does not move it
      lock.unlock();
      if (const int failed = act(home_))
        log(log_level::warning, "soft0: a command that a request triggers failed: " +
                                    std::generic_category().message(failed));
      home_.core().resume(next.qp_num);
      lock.lock();
    }
  }

  host& home_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  std::deque<command> commands_;
  std::deque<request> waiting_;
};

// The runner of the newest host: a forked child has its own host.
std::atomic<command_runner*> newest_runner{nullptr};

command_runner& runner_of(host& home) {
  command_runner* known = newest_runner.load();
  while (known == nullptr || &known->home() != &home) {
    auto made = std::make_unique<command_runner>(home);
    if (newest_runner.compare_exchange_strong(known, made.get())) return *made.release();
  }
  return *known;
}

}  // namespace

int add_triggered_command(host& home, fault_rule rule, command act) {
  command_runner& runner = runner_of(home);
  if (const int failed = runner.start()) return failed;
  rule.effect = fault_effect::command;
  rule.command = runner.add(std::move(act));
  rule.observer = &runner;
  home.core().add_fault(rule);
  return 0;
}

}  // namespace verbena::softdev
