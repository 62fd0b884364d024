// SPDX-License-Identifier: MIT
#include "softdev/host/host.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "softdev/core/process_barrier.hpp"
#include "softdev/host/memory_faults.hpp"
#include "softdev/host/settings.hpp"
#include "softdev/host/warn_once.hpp"
#include "softdev/host/wire_key_file.hpp"
#include "softdev/ipc/cancellation.hpp"
#include "softdev/ipc/clock.hpp"

namespace verbena::softdev {
namespace {

// All of this is trivially destructible or leaked: it is used until the last thread ends.
std::atomic<host*> current{nullptr};

std::mutex& creation_mutex() {
  static auto* const mutex = [] {
    // A fork waits for a creation in progress. So the child never sees a lock that is held by a
    // thread that does not exist in the child.
    static std::mutex* const made = new std::mutex;
    pthread_atfork(
        [] {
          made->lock();
          if (host* const own = current.load()) own->handle(process_event::before_fork);
        },
        [] {
          if (host* const own = current.load()) own->handle(process_event::fork_in_parent);
          made->unlock();
        },
        [] {
          if (host* const parents = current.load()) parents->handle(process_event::fork_in_child);
          made->unlock();
        });
    return made;
  }();
  return *mutex;
}

time_ns to_time_ns(link::time_point when) noexcept {
  // The steady clock is CLOCK_MONOTONIC.
  return static_cast<time_ns>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count());
}

/// File descriptors that the first peer needs: sockets, shared memory, and its process.
constexpr std::size_t descriptors_of_a_peer = 8;

/// Returns an error if there are no descriptors for a peer. Otherwise, the first request to a peer
/// would fail without a reason that the program can see.
result<void> check_descriptors() {
  std::array<unique_fd, descriptors_of_a_peer> spare;
  const unique_fd any(::open("/", O_PATH | O_CLOEXEC));
  for (unique_fd& each : spare) {
    each.reset(any ? ::fcntl(any.get(), F_DUPFD_CLOEXEC, 0) : -1);
    if (each) continue;
    const int code = errno;
    if (code != EMFILE) break;  // something else is missing
    rlimit limit{};
    static_cast<void>(::getrlimit(RLIMIT_NOFILE, &limit));
    return error::from_errno(code, "fcntl(F_DUPFD_CLOEXEC)", "soft0",
                             "a peer needs " + std::to_string(descriptors_of_a_peer) +
                                 " file descriptors, more than RLIMIT_NOFILE (" +
                                 std::to_string(limit.rlim_cur) +
                                 ") leaves; raise it with \"ulimit -n\"");
  }
  return {};
}

void handle_exit() noexcept {
  if (host* const own = current.load(std::memory_order_acquire)) own->handle(process_event::exit);
}

// The delay of work that was not possible because another thread held a lock.
constexpr time_ns restless_ns = 50'000;
// The time until a service that the last one has requested. Not at once: a lack of descriptors can
// make each service request the next one.
constexpr time_ns service_ns = 1'000'000;

}  // namespace

const persona& process_persona() {
  static const persona* const described = new persona(describe_host());
  return *described;
}

result<host*> host::instance() {
  host* known = current.load(std::memory_order_acquire);
  if (known != nullptr && known->usable()) return known;
  const std::lock_guard lock(creation_mutex());
  known = current.load(std::memory_order_acquire);
  if (known != nullptr && known->usable()) return known;
  // A child of fork does not destroy the parent's host: that would change objects that both share.
  VERBENA_TRY(known, make());
  current.store(known, std::memory_order_release);
  [[maybe_unused]] static const int registered = std::atexit(&handle_exit);
  return known;
}

result<host*> host::make() {
  // Registers the process for membarrier(2). The kernel does this at once while there is one
  // thread; once there are several, it takes 10 ms or more.
  run_process_barrier();
  parts made;
  VERBENA_TRY(const link_options options, link_options::from_environment());
  VERBENA_TRY(made.peer_link, link::open(options));
  VERBENA_TRY_VOID(check_descriptors());
  const settings wanted = current_settings();
  if (wanted.persona == persona_kind::roce) made.addresses = address_watch::open();
  if (!wanted.capture.empty()) {
    VERBENA_TRY(made.packets, capture::capture_file::open(wanted.capture));
    made.captured_bytes = wanted.captured_bytes;
  }
  if (wanted.wire.on && wanted.persona != persona_kind::roce)
    warn_once("soft0: VERBENA_SOFTDEV_WIRE needs VERBENA_SOFTDEV_PERSONA=roce; it is ignored");
  else if (wanted.wire.on) {
    VERBENA_TRY_VOID(open_wire(wanted.wire, made));
  }
  if (wanted.ports > 1 && wanted.persona != persona_kind::roce)
    warn_once("soft0: VERBENA_SOFTDEV_PORTS needs VERBENA_SOFTDEV_PERSONA=roce; it is ignored");
  else
    made.ports = wanted.ports;
  auto presented = describe_host(wanted.persona, made.wire.only);
  return new host(std::move(made), std::move(presented));
}

/// Leaves the wire off, with a warning, if the key of the setting cannot be read.
result<void> host::open_wire(const wire_setting& wanted, parts& made) {
  std::uint64_t fingerprint = 0;
  if (wanted.key_file) {
    auto key = read_wire_key(*wanted.key_file);
    if (!key) {
      warn_once("soft0: VERBENA_SOFTDEV_WIRE is ignored, and other hosts are not reached: " +
                key.error().message());
      return {};
    }
    fingerprint = key->fingerprint();
    made.key = *std::move(key);
  }
  VERBENA_TRY(made.port, wire::port_share::open(wanted.port, made.peer_link->slot(), fingerprint));
  made.wire = wanted;
  return {};
}

host::host(parts made, softdev::persona presented)
    : generation_(current_generation()),
      link_(std::move(made.peer_link)),
      engine_(std::make_unique<engine>(engine_options{
          .process_slot = link_->slot(), .clock = &monotonic_now, .observer = this})),
      path_(*engine_, *link_),
      adapter_(std::move(presented), std::move(made.addresses)),
      wire_access_(made.wire, adapter_.gids()),
      wire_(made.port ? std::make_unique<wire::wire_path>(
                            *engine_, *std::move(made.port),
                            wire::wire_path_options{.process_slot = link_->slot(),
                                                    .observer = this,
                                                    .faults = made.wire.faults,
                                                    .addresses = &wire_access_.own_addresses(),
                                                    .key = made.key})
                      : nullptr),
      thread_(*this, {.watch_fd = adapter_.address_fd(),
                      .tend_fd = link_->service_fd(),
                      .run_fd = wire_ ? wire_->fd() : -1,
                      .wakes = &link_->sleeper().wakes()}),
      groups_({.core = *engine_,
               .peer_link = *link_,
               .work = *this,
               .thread = thread_,
               .wire = wire_access_}) {
  port_state& port = engine_->port();
  const softdev::persona& seen = adapter_.persona();
  port.set_count(made.ports);
  port.set_lid(seen.lid);
  for (std::size_t i = 0; i < seen.pkeys.size(); ++i) port.set_pkey(i, seen.pkeys[i]);
  if (wire_) wire_access_.begin(*wire_);
  engine_->routes().set_remote(&outward());
  if (!made.packets) return;
  recorder_ = std::make_unique<capture::recorder>(*engine_, outward(), std::move(*made.packets),
                                                  made.captured_bytes);
  if (wire_) wire_->watch(recorder_->wire());
}

/// Returns the path to other processes, and to other hosts if the wire is on.
remote_path& host::outward() noexcept {
  if (!wire_) return path_;
  if (!paths_) paths_.emplace(path_, *wire_, link_->segment());
  return *paths_;
}

void host::handle(process_event what) noexcept {
  if (!wire_) return;
  if (what == process_event::fork_in_child) {
    wire_access_.abandon_after_fork();
    return wire_->abandon_after_fork();
  }
  if (!usable()) return;  // a child of fork that has not opened the device
  switch (what) {
    case process_event::before_fork:
      wire_access_.prepare_fork();
      return wire_->prepare_fork();
    case process_event::fork_in_parent:
      wire_access_.continue_after_fork();
      return wire_->continue_after_fork();
    case process_event::exit:
      return wire_->flush_before_exit();
    case process_event::fork_in_child:
      break;
  }
}

void host::tend() noexcept {
  const without_cancellation disabled;
  const auto done = link_->service(link::time_point::clock::now());
  tend_at_.store(done.next ? to_time_ns(*done.next) : never, std::memory_order_relaxed);
  if (done.events != 0) path_.after_service();
}

void host::run(wire::ack_time acks) noexcept {
  path_.progress();
  if (wire_) wire_->progress(acks);
  engine_->progress();
  if (delays_.earliest() != never) delays_.raise_due(monotonic_now());
}

time_ns host::next_deadline() const noexcept {
  const time_ns soon = path_.unfinished()       ? 0
                       : path_.needs_progress() ? monotonic_now() + restless_ns
                                                : never;
  const auto next_look = link_->sleeper().next_look();
  const time_ns look_at = next_look ? to_time_ns(*next_look) : never;
  const auto next_check = link_->sleeper().next_check();
  const time_ns check_at = next_check ? to_time_ns(*next_check) : never;
  // tend() can request a service that only the next one performs, after the wake of this one.
  const time_ns service_at = link_->service_due() ? monotonic_now() + service_ns : never;
  return std::min({engine_->next_deadline(), tend_at_.load(std::memory_order_relaxed), soon,
                   service_at, look_at, check_at, delays_.earliest(), adapter_.next_read(),
                   wire_ ? wire_->next_deadline() : never});
}

void host::progress(caller from) noexcept {
  thread_.note_polling();
  const bool tended = link_->service_due();
  if (tended) tend();
  const bool later = from == caller::poll && thread_.parked();
  run(later ? wire::ack_time::later : wire::ack_time::at_once);
  // The thread may have to tend earlier now. It also repeats work that a held lock prevented: the
  // caller need not call again. A parked thread sends postponed ACKs when it ends its wait.
  const bool unsent =
      wire_ && (wire_->needs_progress() || (wire_->has_postponed_acks() && !thread_.parked()));
  if (tended || path_.needs_progress() || unsent) thread_.wake();
}

std::size_t host::lose_peers(std::optional<pid_t> pid) {
  const std::size_t lost = link_->lose_peers(pid);
  progress();
  thread_.wake();
  return lost;
}

host::published host::publish(std::uint32_t key, const memory_region& region) {
  const auto place = link_->arenas().acquire(region.base, region.length);
  const bool visible =
      link_->segment().publish_region({.key = key,
                                       .pd = static_cast<std::uint32_t>(region.domain),
                                       .access = region.rights.mask(),
                                       .iova = region.iova,
                                       .length = region.length,
                                       .address = reinterpret_cast<std::uint64_t>(region.base),
                                       .arena = place ? place->arena : 0,
                                       .arena_offset = place ? place->offset : 0});
  return {{key, region.base, place.has_value()}, visible};
}

result<registered_region> host::register_region(const memory_region& region) {
  catch_memory_faults();
  // If the public table has no room near a key, another key is tried.
  for (int attempt = 0; attempt < 16; ++attempt) {
    VERBENA_TRY(const std::uint32_t key, engine_->register_region(region));
    const auto [made, visible] = publish(key, region);
    if (visible) return made;
    if (made.shareable) link_->arenas().release(region.base);
    engine_->deregister_region(key);
  }
  return error::from_errno(ENOMEM, "ibv_reg_mr", "soft0",
                           "all entries of the memory region table are in use; deregister regions");
}

result<registered_region> host::reregister_region(const registered_region& old,
                                                  const memory_region& region) {
  VERBENA_TRY_VOID(engine_->replace_region(old.key, region));
  link_->segment().withdraw_region(old.key);
  link_->fence_memory(old.memory);
  // Peers that do not find the key send their requests to this process, which decides.
  const registered_region made = publish(old.key, region).region;
  if (old.shareable) link_->arenas().release(old.memory);
  return made;
}

void host::deregister_region(const registered_region& region) noexcept {
  link_->segment().withdraw_region(region.key);
  link_->fence_memory(region.memory);
  engine_->deregister_region(region.key);
  if (region.shareable) link_->arenas().release(region.memory);
}

}  // namespace verbena::softdev
