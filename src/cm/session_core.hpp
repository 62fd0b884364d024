// SPDX-License-Identifier: MIT
// What a session consists of. One lock guards all of it but what belongs to the side that is not
// connected yet. Threads that wait elect one that sleeps on the descriptors, without the lock; the
// others wait for what it finds. Only that one takes events of the completion channel, so that none
// is taken away from it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
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

/// Which side of the connection it is.
enum class role : std::uint8_t { active, passive };

/// Threads: thread-safe once it is connected, and before that one thread at a time.
class session_core {
 public:
  [[nodiscard]] static result<std::unique_ptr<session_core>> create(pending_connection& side,
                                                                    role which,
                                                                    const session_options& options);
  session_core(const session_core&) = delete;
  session_core& operator=(const session_core&) = delete;
  ~session_core() = default;

  [[nodiscard]] const protection_domain& domain() const noexcept { return objects_.domain; }
  /// The rights that a buffer is registered with when `asked` are.
  [[nodiscard]] access_flags access_for(access_flags asked) const;

  /// The queue pair, to be connected; nothing can be posted until begin().
  [[nodiscard]] prepared_queue_pair<rc> take_prepared();
  /// Begins to work with the connection that was made of it. On iWARP this is when both sides
  /// say a first message.
  [[nodiscard]] result<void> begin(cm::connection link, deadline until);
  [[nodiscard]] cm::connection& link() noexcept { return *link_; }

  [[nodiscard]] result<void> receive(receive_request request, std::span<const local_slice> into);
  [[nodiscard]] result<void> send(send_request request, std::span<const local_slice> data);
  /// Of a piece of the peer's memory: which buffer, and where in it.
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
    unique_fd wake;  // readable once the connection is over
    prepared_queue_pair<rc> prepared;
    role which;
    bool iwarp;
    std::size_t max_read_slices;
  };
  session_core(parts made, const std::string& name);

  [[nodiscard]] static result<parts> make(pending_connection& side, role which,
                                          const session_options& options);

  // All that follows is called with the lock held, which `held` stands for where it is given up.
  using held = std::unique_lock<std::mutex>;
  /// That something may be posted with this id.
  [[nodiscard]] result<void> check_post(std::string_view call, std::uint64_t id) const;
  [[nodiscard]] result<void> check_remote(remote_place where, std::uint64_t bytes, access right,
                                          std::string_view call) const;
  [[nodiscard]] result<void> post_receive(receive_request request,
                                          std::span<const local_slice> into);
  [[nodiscard]] result<void> post_message(const bringup::advertisement_message& message,
                                          std::uint64_t mark);
  /// Does `change` to the book, whose message is then posted; the book is unchanged if it is not.
  template <class Change>
  [[nodiscard]] result<void> tell(std::string_view call, Change change);
  [[nodiscard]] error too_many(std::string_view call) const;

  /// Waits until `ready`, which is asked whenever something arrived; false when the deadline
  /// passed.
  [[nodiscard]] result<bool> wait(held& lock, const std::function<bool()>& ready, deadline until);
  /// Watches the descriptors, for all that wait.
  [[nodiscard]] result<void> watch(held& lock, deadline until);
  [[nodiscard]] result<void> look_at_connection();
  /// Takes all completions that are there.
  [[nodiscard]] result<void> drain();
  void take(const completion& done, session_queue which);
  void take_message(const completion& done, std::uint32_t slot);
  void end(error why);
  /// The first messages on iWARP: the side that asked says one, and the other one answers.
  [[nodiscard]] result<void> greet(held& lock, deadline until);
  [[nodiscard]] result<void> nudge();
  /// Whether no more requests succeed, as far as completions and events say.
  [[nodiscard]] bool is_ending() const noexcept { return flushed_ || over_.has_value(); }
  /// Sees to it that over_ says why. On iWARP requests are flushed before the end is reported.
  [[nodiscard]] result<void> learn_reason(held& lock, deadline until);
  [[nodiscard]] error failure_of(const completion& failed, session_queue which) const;
  /// Why no message about buffers will come.
  [[nodiscard]] error no_message(text_argument call);
  /// Waits for `ready`, or until no message can come any more.
  [[nodiscard]] result<void> wait_message(held& lock, const std::function<bool()>& ready,
                                          deadline until, text_argument call);
  [[nodiscard]] completion_inbox& inbox(session_queue which) noexcept {
    return which == session_queue::send ? sent_ : received_;
  }
  [[nodiscard]] const completion_queue& queue_of(session_queue which) const noexcept {
    return which == session_queue::send ? objects_.sends : objects_.receives;
  }

  parts objects_;
  shared_text name_;
  ibv_qp* queue_ = nullptr;  // null while nothing may be posted
  std::optional<cm::connection> link_;

  mutable std::mutex mutex_;
  std::condition_variable found_;
  bool has_watcher_ = false;   // on the descriptors
  std::optional<error> over_;  // why no more requests succeed
  bool flushed_ = false;       // a request
  bool disconnected_ = false;
  bool greeted_ = false;  // the peer on iWARP said its first message
  std::uint32_t expected_ = 0;
  completion_inbox sent_;
  completion_inbox received_;
  bringup::advertisement_table book_;
  std::deque<bringup::advertisement_update> updates_;
  std::deque<error> protocol_errors_;
};

}  // namespace verbena::inline VERBENA_ABI::cm::detail
