// SPDX-License-Identifier: MIT
#include "softdev/shim/cm_process.hpp"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <utility>

#include "softdev/host/settings.hpp"
#include "softdev/ipc/fork_generation.hpp"
#include "softdev/shim/answers.hpp"
#include "softdev/shim/cm_wire.hpp"
#include "softdev/shim/efa.hpp"
#include "softdev/shim/objects.hpp"
#include "verbena/base/log.hpp"

namespace verbena::softdev {
namespace {

// Never destroyed: threads of the program may use it while the program exits.
std::atomic<cm_process*> current{nullptr};
cm_process* in_fork = nullptr;

std::mutex& creation_mutex() {
  static std::mutex* const made = new std::mutex;
  return *made;
}

void before_fork() {
  creation_mutex().lock();
  in_fork = current.load();
  if (in_fork != nullptr && !is_current_generation(in_fork->generation)) in_fork = nullptr;
  if (in_fork != nullptr) in_fork->manager->lock_for_fork();
}
void after_fork_in_parent() {
  if (in_fork != nullptr) in_fork->manager->unlock_after_fork();
  creation_mutex().unlock();
}
// Closes the sockets of the parent: while a child holds them, peers cannot detect the parent's
// exit.
void after_fork_in_child() {
  if (in_fork != nullptr) in_fork->manager->abandon();
  creation_mutex().unlock();
}

int make(std::unique_ptr<cm_process>& out) {
  out = std::make_unique<cm_process>();
  out->generation = current_generation();
  out->context = ibv_open_device(&the_device());
  if (out->context == nullptr) return errno;
  if (is_efa(*out->context)) {
    ibv_close_device(out->context);
    return ENODEV;
  }
  out->domain = ibv_alloc_pd(out->context);
  if (out->domain == nullptr) {
    const int failed = errno;
    ibv_close_device(out->context);
    return failed;
  }
  auto manager = cm::manager::open({}, cm_wire_of(*object_of(out->context).host));
  if (!manager) {
    ibv_dealloc_pd(out->domain);
    ibv_close_device(out->context);
    return manager.error().code();
  }
  out->manager = *std::move(manager);
  return 0;
}

}  // namespace

cm_process* known_cm() noexcept {
  cm_process* const found = current.load(std::memory_order_acquire);
  return found != nullptr && is_current_generation(found->generation) ? found : nullptr;
}

cm_process* cm_here() {
  if (cm_process* const found = known_cm()) return found;
  if (current_settings().listed == listing::off) return fail(ENODEV);
  // Before a fork, handlers run in the reverse order of their registration. The host's lock is
  // taken under this one, so the host's handler must be registered first.
  if (const auto device = host::instance(); !device) return fail(device.error().code());
  static const bool hears_of_forks =
      pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child) == 0;
  static_cast<void>(hears_of_forks);
  const std::lock_guard lock(creation_mutex());
  if (cm_process* const found = known_cm()) return found;
  std::unique_ptr<cm_process> made;
  if (const int failed = make(made)) return fail(failed);
  current.store(made.release(), std::memory_order_release);
  return known_cm();
}

bool cm_usable(const cm_process& of) noexcept {
  if (is_current_generation(of.generation)) return true;
  static std::atomic<bool> logged{false};
  if (!logged.exchange(true))
    log(log_level::warning,
        "soft0: connection manager objects cannot be used in a child process after fork() "
        "(ENODEV); "
        "create them in the child");
  errno = ENODEV;
  return false;
}

}  // namespace verbena::softdev
