// SPDX-License-Identifier: MIT
// The implementation of a session. From begin() on, one lock guards all members. One of the waiting
// threads polls the descriptors without the lock; the others wait on a condition variable. Only the
// polling thread takes events of the completion channel, so no other thread consumes its wake-up.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "src/cm/completion_inbox.hpp"
#include "src/cm/message_slots.hpp"
#include "verbena/base/fd.hpp"
#include "verbena/cm/session.hpp"
#include "verbena/verbs/completion_queue.hpp"

namespace verbena::inline VERBENA_ABI::cm::detail {

/// The side of the connection.
enum class role : std::uint8_t { active, passive };

/// The objects and the state of a session. Threads: thread-safe from begin() on; one thread at a
/// time before.
class session_core {
 public:
  [[nodiscard]] static result<session_core_owner> create(pending_connection& side, role which,
                                                         const session_options& options);
  session_core(const session_core&) = delete;
  session_core& operator=(const session_core&) = delete;
  ~session_core() = default;

  [[nodiscard]] const protection_domain& domain() const noexcept { return objects_.domain; }
  /// Returns the access flags for the registration of a buffer: `asked`, and the flags that reads
  /// into the buffer require.
  [[nodiscard]] access_flags access_for(access_flags asked) const;

  /// Returns the queue pair to be connected. No work request can be posted until begin().
  [[nodiscard]] prepared_queue_pair<rc> take_prepared();
  /// Starts the session on its connection. On iWARP, the sides exchange a first message.
  [[nodiscard]] result<void> begin(cm::connection link, deadline until);
  [[nodiscard]] cm::connection& link() noexcept { return *link_; }

  [[nodiscard]] result<void> receive(receive_request request, std::span<const local_slice> into);
  [[nodiscard]] result<void> send(send_request request, std::span<const local_slice> data);
  /// A place in the peer's memory: a buffer and an offset.
  struct remote_place {
    const remote_buffer* buffer;
    std::uint64_t offset;
  };
  [[nodiscard]] result<void> write(send_request request, std::span<const local_slice> data,
                                   remote_place to);
  [[nodiscard]] result<void> read(send_request request, std::span<const local_slice> into,
                                  remote_place from);
  [[nodiscard]] result<void> wait(session_queue which, std::span<completion> out, deadline until);

  [[nodiscard]] result<void> expect_message();
  [[nodiscard]] result<std::uint32_t> advertise(const local_buffer& buffer, access_flags access,
                                                std::string_view name);
  [[nodiscard]] result<void> revoke(std::uint32_t number);
  [[nodiscard]] result<void> release(std::uint32_t number);
  [[nodiscard]] bool is_advertised(std::uint32_t number) const;
  [[nodiscard]] bool is_usable(const remote_buffer& buffer) const;
  [[nodiscard]] std::optional<remote_buffer> find(std::string_view name) const;
  [[nodiscard]] result<remote_buffer> wait_advertisement(deadline until);
  [[nodiscard]] result<bringup::advertisement_update> wait_update(deadline until);

  [[nodiscard]] result<void> disconnect();
  [[nodiscard]] result<bool> wait_disconnected(deadline until);

 private:
  /// The objects that are created before the connection.
  struct parts {
    protection_domain domain;
    completion_channel channel;
    completion_queue sends;
    completion_queue receives;
    message_slots outgoing;
    message_slots incoming;
    unique_fd wake;  // readable after the end of the connection
    prepared_queue_pair<rc> prepared;
    role which;
    bool iwarp;
    std::size_t max_read_sge;
  };
  session_core(parts made, const std::string& name);

  [[nodiscard]] static result<parts> make(pending_connection& side, role which,
                                          const session_options& options);

  // Call the functions below with the lock held. A function that releases it takes it as an
  // argument.
  using held = std::unique_lock<std::mutex>;
  /// Refers to the condition that ends a wait. Does not allocate; valid during the call.
  class condition {
   public:
    template <class Function>
    // NOLINTNEXTLINE(google-explicit-constructor): a lambda is an argument
    condition(const Function& function) noexcept
        : function_(&function),
          call_([](const void* called) { return (*static_cast<const Function*>(called))(); }) {}
    [[nodiscard]] bool operator()() const { return call_(function_); }

   private:
    const void* function_;
    bool (*call_)(const void*);
  };
  /// Checks that a work request with this id can be posted.
  [[nodiscard]] result<void> check_post(std::string_view call, std::uint64_t id) const;
  [[nodiscard]] result<void> check_remote(remote_place where, std::uint64_t bytes, access needed,
                                          std::string_view call) const;
  [[nodiscard]] result<void> post_receive(receive_request request,
                                          std::span<const local_slice> into);
  /// Ends the session after some, but not all, parts of a read were posted. Returns the reason.
  [[nodiscard]] error end_partial_read(std::uint64_t id, std::string_view progress);
  [[nodiscard]] result<void> post_message(const bringup::advertisement_message& message,
                                          std::uint64_t mark);
  /// Applies `change` to the table of advertisements and posts the resulting message. If posting
  /// fails, the table is unchanged.
  template <class Change>
  [[nodiscard]] result<void> post_change(std::string_view call, Change change);
  [[nodiscard]] error too_many(std::string_view call) const;

  /// Waits until `ready` returns true. Calls `ready` after each arrival. Returns false if the
  /// deadline passes.
  [[nodiscard]] result<bool> wait(held& lock, condition ready, deadline until);
  /// Polls the descriptors on behalf of all waiting threads.
  [[nodiscard]] result<void> watch(held& lock, deadline until);
  [[nodiscard]] result<void> look_at_connection();
  /// Processes all available completions.
  [[nodiscard]] result<void> drain();
  void take(const completion& done, session_queue which);
  void take_message(const completion& done, std::uint32_t slot);
  void end(error why);
  /// Exchanges the first messages on iWARP: the active side sends one and the passive side answers.
  [[nodiscard]] result<void> greet(held& lock, deadline until);
  [[nodiscard]] result<void> nudge();
  /// Returns whether a completion or an event has reported the end of the connection.
  [[nodiscard]] bool is_ending() const noexcept { return flushed_ || over_.has_value(); }
  /// Waits until over_ has a value. On iWARP, requests are flushed before the end is reported.
  [[nodiscard]] result<void> learn_reason(held& lock, deadline until);
  [[nodiscard]] error failure_of(const completion& failed, session_queue which) const;
  /// Returns the reason why no advertisement message can arrive.
  [[nodiscard]] error no_message(text_argument call);
  /// Waits until `ready` returns true, or until no message can arrive.
  [[nodiscard]] result<void> wait_message(held& lock, condition ready, deadline until,
                                          text_argument call);
  [[nodiscard]] completion_inbox& inbox(session_queue which) noexcept {
    return which == session_queue::send ? sent_ : received_;
  }
  [[nodiscard]] const completion_queue& queue_of(session_queue which) const noexcept {
    return which == session_queue::send ? objects_.sends : objects_.receives;
  }

  parts objects_;
  shared_text name_;
  ibv_qp* queue_ = nullptr;  // null if no work request can be posted
  std::optional<cm::connection> link_;

  mutable std::mutex mutex_;
  std::condition_variable found_;
  bool has_watcher_ = false;   // a thread polls the descriptors
  std::optional<error> over_;  // the reason of the end of the connection
  bool flushed_ = false;       // a work request was flushed
  bool disconnected_ = false;
  bool greeted_ = false;  // iWARP: the peer's first message has arrived
  std::uint32_t expected_ = 0;
  completion_inbox sent_;
  completion_inbox received_;
  bringup::advertisement_table book_;
  std::deque<bringup::advertisement_update> updates_;
  std::deque<error> protocol_errors_;
};

}  // namespace verbena::inline VERBENA_ABI::cm::detail
