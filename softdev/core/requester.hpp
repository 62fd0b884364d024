// SPDX-License-Identifier: MIT
// The part of a queue pair's send side that all transports share: executes the send queue in order
// and completes in order. Retries and answers are in core/transport.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "softdev/core/datagram.hpp"
#include "softdev/core/outgoing_request.hpp"
#include "softdev/core/send_faults.hpp"
#include "softdev/core/send_window.hpp"

namespace verbena::softdev {

class queue_pair;
class remote_path;
struct queue_pair_options;

/// Executes the send queue of a queue pair. Threads: one thread at a time: the caller holds the
/// send lock of the queue pair and, if the function accesses memory, is inside an access epoch.
/// Does not allocate. One indirect call per batch.
class requester {
 public:
  virtual ~requester() = default;
  requester(const requester&) = delete;
  requester& operator=(const requester&) = delete;

  [[nodiscard]] send_queue& queue() noexcept { return window_.queue(); }
  /// Called when a batch begins.
  void begin_batch() noexcept { window_.begin_batch(); }
  /// Returns the destination of a request. Only for transports whose requests name a destination.
  [[nodiscard]] datagram_destination& destination(std::uint64_t index) noexcept {
    return *std::launder(reinterpret_cast<datagram_destination*>(window_.queue().extra(index)));
  }

  /// Starts requests that may start now, completes those that are done, retries those that are due.
  /// In the error state, flushes all requests.
  void run() noexcept;
  /// Records that a request of this run uses `path`.
  void note_path(remote_path& path) noexcept { used_path_ = &path; }
  /// Makes the next `run` retry a request that waits for an answer: the peer may answer now.
  virtual void retry_now() noexcept {}

  /// Whether requests use sequence numbers. Requests executed on behalf of the responder do not.
  enum class numbering : std::uint8_t { none, in_sequence };
  /// Returns false if `prepare_following` certainly fails for the next request.
  [[nodiscard]] bool may_have_following() noexcept {
    return takes_followers_ && window_.submitted() + 1 < window_.queue().posted();
  }
  /// Prepares a further request for a path that takes several requests at once: the one `behind`
  /// places after the submitted request. The path has taken the submitted request and all between.
  /// Returns false if the request must be submitted by itself. `out` is valid until the next call.
  [[nodiscard]] bool prepare_following(std::uint32_t behind, numbering numbers,
                                       outgoing_request& out) noexcept {
    return takes_followers_ && !faults_.present() && prepare_behind(behind, numbers, out);
  }

  /// Returns the scatter/gather elements of the submitted request, for its path. Returns an empty
  /// span if the request has inline data.
  [[nodiscard]] std::span<const sge> elements_of_next() noexcept;

  /// Handles the answer to a request. Returns false if it matches no request in flight. The caller
  /// calls `run` afterwards.
  virtual bool answer(const request_id& which, const response& what) noexcept;
  /// Places data of the answer to a read or atomic at `offset` of the request that the path was
  /// given. Returns false if it matches no such request. If a sink fails its checks, the request
  /// ends with a local protection error.
  virtual bool place(const request_id& which, std::uint64_t offset,
                     std::span<const std::byte> bytes) noexcept;
  /// Places data of the answer to an earlier attempt of a read, which waits to be submitted again.
  /// Returns false if there is no such request, or if a sink fails its checks.
  virtual bool place_early(const request_id& which, std::uint64_t offset,
                           std::span<const std::byte> bytes) noexcept;
  /// Called when the process with the slot has exited or is not reachable. The caller calls `run`
  /// afterwards.
  virtual void process_lost(std::uint32_t slot, const failure& why) noexcept;

  /// Returns whether a request that was sent at least once is in flight.
  [[nodiscard]] bool draining() const noexcept { return window_.draining(); }

  // For the queue pair.
  void begin(std::uint32_t send_psn) noexcept { next_psn_ = send_psn; }  ///< RTR -> RTS
  void clear() noexcept;                                                 ///< -> RESET
  void recover() noexcept;                                               ///< SQE -> RTS
  void flush() noexcept;                ///< -> ERR, SQE: completes all requests as flushed
  void notify_when_drained() noexcept;  ///< RTS -> SQD: one event when nothing is in flight
  void forget_drain_event() noexcept { drain_event_ = false; }  ///< SQD -> RTS

  // Injected faults. Adding a rule allocates.
  void add_fault(const fault_rule& rule) { faults_.add(self_, window_, rule); }
  void remove_faults() noexcept { faults_.remove(); }
  /// Releases requests whose completion was delayed and is due. The caller calls `run` afterwards.
  void release_held() noexcept { faults_.release_due(); }
  /// Permits the request that waits for a command to start. The caller calls `run` afterwards.
  void resume() noexcept { faults_.resume(); }

 protected:
  /// `takes_followers`: the transport executes its requests in order, and handles
  /// response::followers. `memory`: the memory of the send queue, or nullptr.
  requester(queue_pair& self, const queue_pair_options& options, bool takes_followers,
            std::byte* memory);

  enum class start_decision : std::uint8_t { start, stop, done };
  /// Calls `start` for each request that may start now, until it returns false. Calls `may_start`
  /// before a request counts for injected faults.
  template <class MayStart, class Start>
  void start_each(MayStart may_start, Start start) noexcept;

  // Implemented by each transport.
  /// Starts requests that may start now.
  virtual void start_requests() noexcept = 0;
  /// Called when the deadline may be reached. Returns false if no request can start now.
  [[nodiscard]] virtual bool wake_up() noexcept = 0;
  /// Discards the transport's data about requests of the window.
  virtual void forget_window() noexcept {}
  /// Applies a fault to the next request. All transports that keep an order share `error` and
  /// `delay`.
  virtual start_decision apply(send_entry& entry, const fault_rule& rule) noexcept;

  /// The reason why a request cannot be sent.
  struct local_refusal {
    completion_status status = completion_status::success;
    failure why;
  };
  /// Prepares a request: checks its local data, makes its message and sets the destination. `out`
  /// is valid until the request changes.
  [[nodiscard]] local_refusal prepare(std::uint64_t index, outgoing_request& out) noexcept;

  /// Ends a request of the window, or the next one, with a failure. No request starts after it.
  void end(send_entry& entry, completion_status status, const failure& why) noexcept;
  /// Completes requests that are done, in order.
  void retire() noexcept;
  /// Completes a request that succeeded, if it is signaled. `released`: see send_window::complete.
  void complete(std::uint64_t index, std::uint64_t released) noexcept {
    if (signals_all_ || window_.at(index).request.flags.contains(send_flag::signaled))
      window_.complete(index, released);
  }
  /// Permits requests to start again after a failure that is discarded.
  void reopen() noexcept { closed_ = false; }
  void step_psn() noexcept { next_psn_ = (next_psn_ + 1) & psn_mask; }
  void wait_until(time_ns when) noexcept;
  /// Completes requests that wait only for an injected delay.
  void release_all_held() noexcept {
    if (faults_.release_all()) retire();
  }

  [[nodiscard]] queue_pair& self() noexcept { return self_; }
  [[nodiscard]] send_window& window() noexcept { return window_; }
  [[nodiscard]] send_faults& faults() noexcept { return faults_; }

  std::uint32_t next_psn_ = 0;
  std::uint16_t attempt_ = 0;  ///< counts attempts, so that late answers are recognized

 private:
  bool closed_ = false;  ///< a request of the window failed; no further request starts
  bool drain_event_ = false;

 protected:
  time_ns deadline_ = never;  ///< when `wake_up` is due; `never` if requests may start

 private:
  void go_on() noexcept;
  void begin_message(message& what) noexcept;
  [[nodiscard]] bool may_send() const noexcept;
  [[nodiscard]] bool prepare_behind(std::uint32_t behind, numbering numbers,
                                    outgoing_request& out) noexcept;
  [[nodiscard]] start_decision inspect(send_entry& entry) noexcept;
  void report_drained() noexcept;
  void disown_payloads() noexcept;

  queue_pair& self_;
  remote_path* used_path_ = nullptr;  ///< used since the last run ended
  send_window window_;
  send_faults faults_;
  const bool takes_followers_;
  const bool signals_all_;
};

template <class MayStart, class Start>
void requester::start_each(MayStart may_start, Start start) noexcept {
  while (!closed_ && window_.has_next() && may_send()) {
    send_entry& entry = window_.next();
    if (!may_start(entry)) return;
    const start_decision admitted = faults_.present() ? inspect(entry) : start_decision::start;
    if (admitted == start_decision::stop) return;
    if (admitted == start_decision::start && !start(entry)) return;
    retire();
  }
}

}  // namespace verbena::softdev
