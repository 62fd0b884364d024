// SPDX-License-Identifier: MIT
// Extended completion queues. A poll does not copy completions: the program reads the fields that
// it needs from the queue of the device. Some fields are available only in this interface. Source:
// ibv_create_cq_ex(3).
#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "verbena/base/bytes.hpp"
#include "verbena/base/call_site.hpp"
#include "verbena/base/enum_bits.hpp"
#include "verbena/base/flags.hpp"
#include "verbena/verbs/completion.hpp"
#include "verbena/verbs/completion_queue.hpp"
#include "verbena/verbs/detail/exclusive_use.hpp"
#include "verbena/verbs/detail/polled_place.hpp"
#include "verbena/verbs/device_clock.hpp"

namespace verbena::inline VERBENA_ABI {

/// An optional field of completions, requested at creation. Values as in `ibv_create_cq_wc_flags`.
/// Source: ibv_create_cq_ex(3).
enum class completion_field : std::uint32_t {
  byte_length = IBV_WC_EX_WITH_BYTE_LEN,  ///< lazy_completion::byte_length()
  immediate = IBV_WC_EX_WITH_IMM,         ///< lazy_completion::immediate() and invalidated_key()
  queue_pair = IBV_WC_EX_WITH_QP_NUM,     ///< lazy_completion::queue_pair()
  source_queue_pair = IBV_WC_EX_WITH_SRC_QP,  ///< lazy_completion::source_queue_pair()
  source_lid = IBV_WC_EX_WITH_SLID,           ///< lazy_completion::source_lid()
  service_level = IBV_WC_EX_WITH_SL,          ///< lazy_completion::service_level()
  destination_path_bits =
      IBV_WC_EX_WITH_DLID_PATH_BITS,                ///< lazy_completion::destination_path_bits()
  timestamp = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,  ///< lazy_completion::timestamp()
  vlan = IBV_WC_EX_WITH_CVLAN,                      ///< lazy_completion::vlan()
  flow_tag = IBV_WC_EX_WITH_FLOW_TAG,               ///< lazy_completion::flow_tag()
  tag_matching = IBV_WC_EX_WITH_TM_INFO,            ///< lazy_completion::tag()
  wall_clock = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,  ///< lazy_completion::wall_clock()
};
template <>
inline constexpr bool enable_flags<completion_field> = true;
/// A set of optional fields.
using completion_fields = flags<completion_field>;

/// Returns the names of verbs.h without `IBV_WC_EX_WITH_`: `BYTE_LEN | IMM`. The empty set is
/// `none`.
[[nodiscard]] std::string to_string(completion_fields fields);

/// Options of context::create_extended_cq().
struct extended_completion_queue_options {
  /// The completion channel of the events; `nullopt` if the queue is only polled.
  std::optional<completion_channel> channel = {};
  /// The completion vector of the events; less than context::completion_vectors().
  std::uint32_t completion_vector = 0;
  /// The optional fields that can be read.
  completion_fields fields =
      completion_field::byte_length | completion_field::immediate | completion_field::queue_pair;
  /// Whether only one thread at a time uses the queue and its copies. The provider may then omit
  /// the lock (IBV_CREATE_CQ_ATTR_SINGLE_THREADED).
  bool single_threaded = false;
  /// Whether the device may omit the check for an overrun (IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN). The
  /// program guarantees that the queue is large enough: an overrun loses completions silently.
  bool ignore_overrun = false;
};

/// The tag matching information of a received message. Source: struct ibv_wc_tm_info.
struct matched_tag {
  std::uint64_t tag = 0;               ///< the tag of the message
  std::uint32_t application_data = 0;  ///< a value of the sender's program (`priv`)
  friend bool operator==(const matched_tag&, const matched_tag&) noexcept = default;
};

namespace detail {
class lazy_position;

/// Casts a function of a provider, which is C code, to a noexcept function. Compilers then keep the
/// variables of a loop in registers.
template <class Result, class... Arguments>
[[nodiscard]] auto throwing_nothing(Result (*function)(Arguments...)) noexcept {
  return reinterpret_cast<Result (*)(Arguments...) noexcept>(function);
}
}  // namespace detail

/// The current completion of a lazy_poll. Each function reads one field from the queue of the
/// device.
///
/// The completion is valid until ibv_next_poll() or ibv_end_poll(): the next increment of the
/// iterator, or the destruction of the lazy_poll. Checked builds stop the program if the completion
/// is read later. All builds stop the program if it reads a field that the queue was not created
/// with. For adopted queues see extended_completion_queue::adopt(). If the request failed, only
/// id(), status(), queue_pair() and vendor_error() are defined.
/// Threads: thread-bound to the thread that polls.
class lazy_completion {
 public:
  /// Refers to the current completion of `queue`. `clock_mask` has the valid bits of the device's
  /// clock.
  explicit lazy_completion(ibv_cq_ex* queue, std::uint64_t clock_mask = ~std::uint64_t{0},
                           call_site polled = call_site::here()) noexcept
      : queue_(queue), clock_mask_(clock_mask), polled_(polled) {}
  lazy_completion(const lazy_completion&) = delete;
  lazy_completion& operator=(const lazy_completion&) = delete;
  ~lazy_completion() = default;

  /// Returns the id of the work request.
  [[nodiscard]] std::uint64_t id(call_site where = call_site::here()) const {
    return queue(where)->wr_id;
  }
  /// Returns whether the request succeeded.
  [[nodiscard]] bool ok(call_site where = call_site::here()) const {
    return status(where) == completion_status::success;
  }
  /// Returns the status of the request.
  [[nodiscard]] completion_status status(call_site where = call_site::here()) const {
    return enum_from_bits<completion_status>(queue(where)->status);
  }
  /// Returns the vendor error of a failure, a number defined by the device.
  [[nodiscard]] std::uint32_t vendor_error(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_vendor_err, where);
  }

  /// Returns the operation of the request. Defined if ok().
  [[nodiscard]] completion_opcode opcode(call_site where = call_site::here()) const {
    return static_cast<completion_opcode>(read(&ibv_cq_ex::read_opcode, where));
  }
  /// Returns whether a receive completed. Defined if ok().
  [[nodiscard]] bool is_receive(call_site where = call_site::here()) const {
    return (read(&ibv_cq_ex::read_opcode, where) & IBV_WC_RECV) != 0;
  }
  /// Returns the flags. Defined if ok().
  [[nodiscard]] completion_flags flags(call_site where = call_site::here()) const {
    return completion_flags::from_mask(read(&ibv_cq_ex::read_wc_flags, where));
  }
  /// Returns the number of bytes of a receive, read or atomic. Defined if ok(), for these
  /// operations. Needs completion_field::byte_length.
  [[nodiscard]] std::uint32_t byte_length(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_byte_len, where);
  }
  /// Returns the immediate data in host byte order; `nullopt` if there is none or if !ok(). Needs
  /// completion_field::immediate.
  [[nodiscard]] std::optional<std::uint32_t> immediate(call_site where = call_site::here()) const {
    if (!has(IBV_WC_WITH_IMM, where)) return std::nullopt;
    return network_order(read(&ibv_cq_ex::read_imm_data, where));
  }
  /// Returns the rkey that a SEND with invalidate invalidated; `nullopt` if there is none or if
  /// !ok(). Needs completion_field::immediate.
  [[nodiscard]] std::optional<remote_key> invalidated_key(
      call_site where = call_site::here()) const {
    if (!has(IBV_WC_WITH_INV, where)) return std::nullopt;
    return remote_key(read(&ibv_cq_ex::read_imm_data, where));
  }
  /// Returns the number of the local queue pair. Needs completion_field::queue_pair.
  [[nodiscard]] queue_pair_number queue_pair(call_site where = call_site::here()) const {
    return queue_pair_number(read(&ibv_cq_ex::read_qp_num, where) & queue_pair_number::max);
  }
  /// Returns the queue pair that sent a datagram. Defined if ok(), for receives of datagrams. Needs
  /// completion_field::source_queue_pair.
  [[nodiscard]] queue_pair_number source_queue_pair(call_site where = call_site::here()) const {
    return queue_pair_number(read(&ibv_cq_ex::read_src_qp, where) & queue_pair_number::max);
  }
  /// Returns the LID of the sender of a datagram on InfiniBand. Needs completion_field::source_lid.
  [[nodiscard]] lid source_lid(call_site where = call_site::here()) const {
    return lid(static_cast<std::uint16_t>(read(&ibv_cq_ex::read_slid, where)));
  }
  /// Returns the service level of a received datagram on InfiniBand. Needs
  /// completion_field::service_level.
  [[nodiscard]] std::uint8_t service_level(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_sl, where);
  }
  /// Returns the low bits of the destination LID of a datagram, for ports with several LIDs. Not
  /// defined for multicast. Needs completion_field::destination_path_bits.
  [[nodiscard]] std::uint8_t destination_path_bits(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_dlid_path_bits, where);
  }
  /// Returns the time of the completion on the clock of the device. Needs
  /// completion_field::timestamp.
  [[nodiscard]] device_clock_time timestamp(call_site where = call_site::here()) const {
    return device_clock_time(
        {.ticks = read(&ibv_cq_ex::read_completion_ts, where), .mask = clock_mask_});
  }
  /// Returns the time of the completion as wall clock time. Needs completion_field::wall_clock.
  [[nodiscard]] std::chrono::sys_time<std::chrono::nanoseconds> wall_clock(
      call_site where = call_site::here()) const {
    return std::chrono::sys_time<std::chrono::nanoseconds>(
        std::chrono::nanoseconds(read(&ibv_cq_ex::read_completion_wallclock_ns, where)));
  }
  /// Returns the VLAN tag (CVLAN) of a received packet. Needs completion_field::vlan.
  [[nodiscard]] std::uint16_t vlan(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_cvlan, where);
  }
  /// Returns the tag of the flow steering rule that the packet matched (ibv_create_flow(3)). Needs
  /// completion_field::flow_tag.
  [[nodiscard]] std::uint32_t flow_tag(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_flow_tag, where);
  }

  /// Returns the tag matching information. Defined if flags() contains
  /// completion_flag::tag_data_valid or tag_matched. Needs completion_field::tag_matching.
  [[nodiscard]] matched_tag tag(call_site where = call_site::here()) const {
    ibv_wc_tm_info info{};
    queue(where)->read_tm_info(queue_, &info);
    return {.tag = info.tag, .application_data = info.priv};
  }

  /// Returns success, or an error with request, status, vendor error and likely cause. Needs
  /// completion_field::queue_pair if !ok().
  [[nodiscard]] verbena::result<void> result(call_site where = call_site::here()) const {
    if (ok(where)) return {};
    return detail::completion_failure(
        {id(where), status(where), queue_pair(where), vendor_error(where)});
  }

  /// Returns the queue of the C API that this completion is read from.
  [[nodiscard]] ibv_cq_ex* native(call_site where = call_site::here()) const {
    return queue(where);
  }

 private:
  friend class detail::lazy_position;

  [[nodiscard]] ibv_cq_ex* queue(call_site where) const {
    polled_.check(where);
    return queue_;
  }
  template <class Field>
  [[nodiscard]] Field read(Field (*ibv_cq_ex::*reader)(ibv_cq_ex*), call_site where) const {
    return detail::throwing_nothing(queue(where)->*reader)(queue_);
  }
  [[nodiscard]] bool has(unsigned flag, call_site where) const {
    return ok(where) && (read(&ibv_cq_ex::read_wc_flags, where) & flag) != 0;
  }

  ibv_cq_ex* queue_;
  std::uint64_t clock_mask_;
  [[no_unique_address]] detail::polled_place polled_;
};

namespace detail {

/// The current completion of a lazy_poll. Checked builds create a lazy_completion for each
/// completion and keep the last 256 of a thread, in order to detect reads of earlier ones.
/// Threads: one thread at a time.
class lazy_position {
 public:
#ifdef VERBENA_CHECKED
  lazy_position(ibv_cq_ex* queue, std::uint64_t clock_mask, call_site polled);
  lazy_position(const lazy_position&) = delete;
  lazy_position& operator=(const lazy_position&) = delete;
  ~lazy_position();
  void step();
  [[nodiscard]] const lazy_completion& here() const noexcept { return *here_; }

 private:
  std::unique_ptr<lazy_completion> here_;
#else
  lazy_position(ibv_cq_ex* queue, std::uint64_t clock_mask, call_site polled) noexcept
      : here_(queue, clock_mask, polled) {}
  void step() noexcept {}
  [[nodiscard]] const lazy_completion& here() const noexcept { return here_; }

 private:
  lazy_completion here_;
#endif
};

/// Logs a polling failure that the program did not read.
void report_unread_polling_failure(int status) noexcept;
/// Returns the error of a lazy_poll; out of line, so that callers stay small.
[[nodiscard]] result<void> lazy_polling_failure(int status);
}  // namespace detail

/// One poll of an extended completion queue: `for (const auto& done : cq.poll()) …`.
///
/// The constructor calls ibv_start_poll(), the destructor ibv_end_poll(). Between these calls,
/// providers hold the lock of the queue: the thread must not call another function of the queue,
/// and other threads wait. Checked builds stop the program if the thread polls the queue again.
///
/// A failure of the device ends the poll, and result() returns it. If the program does not call
/// result(), the destructor logs the failure. Does not block. Does not allocate, except that on rxe
/// the first poll of a thread that reaches the end of a queue may allocate.
/// Threads: one thread at a time.
class [[nodiscard(
    "a lazy_poll returns completions only by iteration: iterate over it")]] lazy_poll {
 public:
  /// An input iterator. Incrementing it calls ibv_next_poll().
  class iterator {
   public:
    /// The type of the elements.
    using value_type = lazy_completion;
    /// Required of iterators; not used.
    using difference_type = std::ptrdiff_t;
    /// The iterator is single-pass.
    using iterator_concept = std::input_iterator_tag;

    /// Makes an iterator of `poll`, which must outlive it.
    explicit iterator(lazy_poll& poll) noexcept : poll_(&poll) {}
    /// Returns the current completion, which is valid until the next increment.
    [[nodiscard]] const lazy_completion& operator*() const noexcept { return poll_->at_.here(); }
    /// Returns the current completion, which is valid until the next increment.
    [[nodiscard]] const lazy_completion* operator->() const noexcept { return &poll_->at_.here(); }
    /// Moves to the next completion: ibv_next_poll().
    iterator& operator++() {
      ibv_cq_ex* const queue = poll_->at_.here().native();
      poll_->at_.step();
      poll_->code_ = detail::throwing_nothing(queue->next_poll)(queue);
      if (poll_->code_ == 0) detail::record_completions(queue, poll_->where_);
      return *this;
    }
    /// Moves to the next completion: ibv_next_poll().
    void operator++(int) { ++*this; }
    /// Returns whether there are no more completions.
    [[nodiscard]] friend bool operator==(const iterator& at, std::default_sentinel_t) noexcept {
      return at.is_over();
    }

   private:
    [[nodiscard]] bool is_over() const noexcept { return poll_->code_ != 0; }

    lazy_poll* poll_;
  };

  /// Begins to poll `queue`. `clock_mask` has the valid bits of the device's clock.
  explicit lazy_poll(ibv_cq_ex* queue, std::uint64_t clock_mask = ~std::uint64_t{0},
                     call_site where = call_site::here())
      : at_(queue, clock_mask, where), where_(where) {
    detail::begin_exclusive(
        queue, "a thread began a second poll of a completion queue before it ended the first one",
        where);
    ibv_poll_cq_attr attributes{};
    code_ = detail::throwing_nothing(queue->start_poll)(queue, &attributes);
    started_ = code_ == 0;
    if (started_)
      detail::record_completions(queue, where);
    else
      detail::end_exclusive(queue);
  }
  lazy_poll(const lazy_poll&) = delete;
  lazy_poll& operator=(const lazy_poll&) = delete;
  [[gnu::always_inline]] inline ~lazy_poll() {
    // If ibv_start_poll() failed, ibv_end_poll() must not be called: ibv_create_cq_ex(3).
    ibv_cq_ex* const queue = at_.here().native();
    if (started_) {
      detail::throwing_nothing(queue->end_poll)(queue);
      detail::end_exclusive(queue);
    }
    if (code_ != 0 && code_ != ENOENT) [[unlikely]]
      detail::report_unread_polling_failure(code_);
  }

  /// Returns an iterator at the current completion.
  [[nodiscard]] iterator begin() noexcept { return iterator(*this); }
  /// Returns the end of the completions.
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// Returns whether there is no current completion: the queue was empty, or all completions were
  /// read.
  [[nodiscard]] bool empty() const noexcept { return code_ != 0; }
  /// Returns success, or the failure of the device that ended the poll. A failure is returned only
  /// by the first call.
  [[nodiscard]] verbena::result<void> result() {
    if (code_ == 0 || code_ == ENOENT) return {};
    return detail::lazy_polling_failure(std::exchange(code_, ENOENT));
  }

 private:
  detail::lazy_position at_;
  [[no_unique_address]] call_site where_;
  int code_ = 0;
  bool started_ = false;
};

/// A completion queue with lazy_poll, created by context::create_extended_cq(). All functions of
/// completion_queue work too.
///
/// Threads: one thread at a time uses each handle. Different threads may use copies concurrently,
/// unless the queue was created with `single_threaded`.
class extended_completion_queue : public completion_queue {
 public:
  /// Adopts an extended queue that was created with `fields`. Precondition: it belongs to `of`.
  ///
  /// With ownership::take, the read functions of all other fields are replaced by functions that
  /// stop the program. With ownership::borrow, the provider defines the result of such a read.
  [[nodiscard]] static extended_completion_queue adopt(ibv_cq_ex* native, const context& of,
                                                       ownership owner, completion_fields fields);

  /// Polls the queue: ibv_start_poll(). Does not block or allocate.
  [[nodiscard]] lazy_poll poll(call_site where = call_site::here()) const {
    VERBENA_CHECK(extended_.get() != nullptr, "a moved-from completion queue was used");
    return lazy_poll(extended_.get(), clock_mask_, where);
  }
  using completion_queue::poll;

  /// Returns the optional fields that can be read.
  [[nodiscard]] completion_fields fields() const noexcept { return fields_; }
  /// Returns the extended queue of the C API.
  [[nodiscard]] ibv_cq_ex* native_extended() const noexcept { return extended_.get(); }

  /// Destroys the queue: ibv_destroy_cq(3). If the queue is shared, or if the verb fails, returns
  /// the queue with the error.
  [[nodiscard]] close_result<extended_completion_queue> close() &&;

 private:
  friend struct detail::internals;
  extended_completion_queue(std::shared_ptr<detail::completion_queue_state> state,
                            ibv_cq_ex* extended, completion_fields fields,
                            std::uint64_t clock_mask) noexcept
      : completion_queue(std::move(state)),
        extended_(extended),
        fields_(fields),
        clock_mask_(clock_mask) {}

  detail::native_pointer<ibv_cq_ex> extended_;
  completion_fields fields_;
  std::uint64_t clock_mask_;
};

}  // namespace verbena::inline VERBENA_ABI
