// SPDX-License-Identifier: MIT
// Commands that inject faults of memory regions, completion queues and peers.
#include <array>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <optional>

#include "softdev/shim/cm_process.hpp"
#include "softdev/shim/command.hpp"
#include "softdev/shim/objects.hpp"

namespace verbena::softdev {
namespace {

// Calls `action` with each open context, while its working objects are locked.
template <class Action>
void for_each_context(host& home, Action action) {
  home.adapter().listeners().for_each([&](void* context) {
    auto& object = *static_cast<context_object*>(context);
    const std::lock_guard lock(object.working.lock);
    action(object);
  });
}

struct region_choice {
  std::uint64_t index = 0;
  std::uint64_t key = 0;
};

int revoke_region(host& home, const region_choice& which) {
  int outcome = ENOENT;
  for_each_context(home, [&](context_object& context) {
    for (mr_object* mr : context.working.regions) {
      if (mr->index != which.index && mr->region.key != which.key) continue;
      memory_region next = mr->described;
      next.rights = next.rights.without(access::remote_write)
                        .without(access::remote_read)
                        .without(access::remote_atomic);
      const auto made = home.reregister_region(mr->region, next);
      outcome = made ? 0 : made.error().code();
      if (!made) continue;
      mr->region = *made;
      mr->described = next;
    }
  });
  return outcome;
}

int overrun_queue(host& home, std::uint64_t index) {
  int outcome = ENOENT;
  for_each_context(home, [&](context_object& context) {
    for (cq_object* cq : context.working.completion_queues) {
      if (cq->index != index) continue;
      cq->queue->overrun_next();
      outcome = 0;
    }
  });
  return outcome;
}

constexpr std::uint64_t highest_index = 0xffff'ffff;

command read_revoke(word_reader& words) {
  region_choice which;
  if (words.accept_key("key"))
    which.key = words.number(1, 0xffff'ffff);
  else if (words.accept_key("index"))
    which.index = words.number(1, highest_index);
  else
    words.refuse("key=RKEY or index=N");
  return [which](host& home) { return revoke_region(home, which); };
}

command read_overrun(word_reader& words) {
  std::uint64_t index = 0;
  if (words.accept_key("index"))
    index = words.number(1, highest_index);
  else
    words.refuse("index=N");
  return [index](host& home) { return overrun_queue(home, index); };
}

int lose_peers(host& home, std::optional<pid_t> pid) {
  std::size_t lost = home.lose_peers(pid);
  if (const cm_process* const connections = known_cm())
    lost += connections->manager->lose_peers(pid);
  return lost > 0 ? 0 : ENOENT;
}

command read_peer_exit(word_reader& words) {
  std::optional<pid_t> pid;
  if (words.accept_key("pid")) pid = static_cast<pid_t>(words.number(1, 0x7fff'ffff));
  return [pid](host& home) { return lose_peers(home, pid); };
}

constexpr std::array object_rows = {
    named<command (*)(word_reader&)>{"revoke-region", &read_revoke},
    named<command (*)(word_reader&)>{"overrun-cq", &read_overrun},
    named<command (*)(word_reader&)>{"peer-exit", &read_peer_exit},
};

command read_object_command(word_reader& words) {
  for (const auto& row : object_rows)
    if (words.accept(row.name)) return row.value(words);
  return {};
}

}  // namespace

command_family object_commands() noexcept {
  return {&read_object_command, [] { return names_of(object_rows); }};
}

}  // namespace verbena::softdev
