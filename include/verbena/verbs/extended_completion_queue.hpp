// SPDX-License-Identifier: MIT
// Completions that are read field by field from the device's own queue, and fields that the classic
// interface does not have. Source: ibv_create_cq_ex(3).
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
#include "verbena/verbs/detail/open_alone.hpp"
#include "verbena/verbs/detail/polled_place.hpp"
#include "verbena/verbs/device_clock.hpp"

namespace verbena::inline VERBENA_ABI {

/// A field of completions that has to be asked for at creation. Source: ibv_create_cq_wc_flags.
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
/// A set of them.
using completion_fields = flags<completion_field>;

/// `BYTE_LEN | IMM`: the names of verbs.h without `IBV_WC_EX_WITH_`; `none` for no field.
[[nodiscard]] std::string to_string(completion_fields fields);

/// What `context::create_extended_cq` can be told.
struct extended_completion_queue_options {
  /// Where the queue reports that it has completions; none: it is only polled.
  std::optional<completion_channel> channel = {};
  /// Which interrupt vector notifications use; below `num_comp_vectors` of the context.
  std::uint32_t completion_vector = 0;
  /// Which optional fields can be read.
  completion_fields fields =
      completion_field::byte_length | completion_field::immediate | completion_field::queue_pair;
  /// Only one thread uses the queue at a time, so the provider may leave out its lock.
  bool single_threaded = false;
  /// The queue never overflows by what the program does, so the device need not look.
  bool ignore_overrun = false;
};

/// What came with a message that matched a tag. Source: struct ibv_wc_tm_info.
struct matched_tag {
  std::uint64_t tag = 0;               ///< of the message
  std::uint32_t application_data = 0;  ///< that the sender added
  friend bool operator==(const matched_tag&, const matched_tag&) noexcept = default;
};

namespace detail {
class lazy_position;

/// A function of a provider, which is C. Compilers do not see that it throws nothing, and would
/// keep a loop's variables in memory for the case that it does.
template <class Result, class... Arguments>
[[nodiscard]] auto throwing_nothing(Result (*function)(Arguments...)) noexcept {
  return reinterpret_cast<Result (*)(Arguments...) noexcept>(function);
}
}  // namespace detail

/// The completion that a lazy poll stands on; it is gone with the next step and with the end of the
/// poll, so it is not copied. Each read asks the device. Reading a field that the queue was not
/// created for stops the program with a rule, and in checked builds so does reading what is gone.
/// Threads: one thread at a time.
class lazy_completion {
 public:
  /// On `queue`, of a device whose clock counts in the bits of `clock_mask`.
  explicit lazy_completion(ibv_cq_ex* queue, std::uint64_t clock_mask = ~std::uint64_t{0},
                           call_site polled = call_site::here()) noexcept
      : queue_(queue), clock_mask_(clock_mask), polled_(polled) {}
  lazy_completion(const lazy_completion&) = delete;
  lazy_completion& operator=(const lazy_completion&) = delete;
  ~lazy_completion() = default;

  /// The number that the work request was posted with.
  [[nodiscard]] std::uint64_t id(call_site where = call_site::here()) const {
    return queue(where)->wr_id;
  }
  /// Whether the request succeeded.
  [[nodiscard]] bool ok(call_site where = call_site::here()) const {
    return status(where) == completion_status::success;
  }
  /// How the request ended.
  [[nodiscard]] completion_status status(call_site where = call_site::here()) const {
    return enum_from_bits<completion_status>(queue(where)->status);
  }
  /// What the device says about a failure, in its own numbers.
  [[nodiscard]] std::uint32_t vendor_error(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_vendor_err, where);
  }

  /// What the request did. Defined if ok().
  [[nodiscard]] completion_opcode opcode(call_site where = call_site::here()) const {
    return static_cast<completion_opcode>(read(&ibv_cq_ex::read_opcode, where));
  }
  /// True for the completion of a receive. Defined if ok().
  [[nodiscard]] bool is_receive(call_site where = call_site::here()) const {
    return (read(&ibv_cq_ex::read_opcode, where) & IBV_WC_RECV) != 0;
  }
  /// Defined if ok().
  [[nodiscard]] completion_flags flags(call_site where = call_site::here()) const {
    return completion_flags::from_mask(read(&ibv_cq_ex::read_wc_flags, where));
  }
  /// Bytes received, or moved by a read or an atomic. Needs completion_field::byte_length.
  [[nodiscard]] std::uint32_t byte_length(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_byte_len, where);
  }
  /// The number that the sender added, in host order; nothing if it added none or if !ok(). Needs
  /// completion_field::immediate.
  [[nodiscard]] std::optional<std::uint32_t> immediate(call_site where = call_site::here()) const {
    if (!has(IBV_WC_WITH_IMM, where)) return std::nullopt;
    return network_order(read(&ibv_cq_ex::read_imm_data, where));
  }
  /// The key of the window or region that the sender's message took away here; nothing if it took
  /// none or if !ok(). Needs completion_field::immediate.
  [[nodiscard]] std::optional<remote_key> invalidated_key(
      call_site where = call_site::here()) const {
    if (!has(IBV_WC_WITH_INV, where)) return std::nullopt;
    return remote_key(read(&ibv_cq_ex::read_imm_data, where));
  }
  /// The queue pair of this side. Needs completion_field::queue_pair.
  [[nodiscard]] queue_pair_number queue_pair(call_site where = call_site::here()) const {
    return queue_pair_number(read(&ibv_cq_ex::read_qp_num, where) & queue_pair_number::max);
  }
  /// The sender of a datagram. Needs completion_field::source_queue_pair.
  [[nodiscard]] queue_pair_number source_queue_pair(call_site where = call_site::here()) const {
    return queue_pair_number(read(&ibv_cq_ex::read_src_qp, where) & queue_pair_number::max);
  }
  /// Needs completion_field::source_lid.
  [[nodiscard]] lid source_lid(call_site where = call_site::here()) const {
    return lid(static_cast<std::uint16_t>(read(&ibv_cq_ex::read_slid, where)));
  }
  /// Needs completion_field::service_level.
  [[nodiscard]] std::uint8_t service_level(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_sl, where);
  }
  /// Needs completion_field::destination_path_bits.
  [[nodiscard]] std::uint8_t destination_path_bits(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_dlid_path_bits, where);
  }
  /// When it completed, on the device's clock. Needs completion_field::timestamp.
  [[nodiscard]] device_clock_time timestamp(call_site where = call_site::here()) const {
    return device_clock_time(
        {.ticks = read(&ibv_cq_ex::read_completion_ts, where), .mask = clock_mask_});
  }
  /// When it completed, in the time of day. Needs completion_field::wall_clock.
  [[nodiscard]] std::chrono::sys_time<std::chrono::nanoseconds> wall_clock(
      call_site where = call_site::here()) const {
    return std::chrono::sys_time<std::chrono::nanoseconds>(
        std::chrono::nanoseconds(read(&ibv_cq_ex::read_completion_wallclock_ns, where)));
  }
  /// Needs completion_field::vlan.
  [[nodiscard]] std::uint16_t vlan(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_cvlan, where);
  }
  /// Needs completion_field::flow_tag.
  [[nodiscard]] std::uint32_t flow_tag(call_site where = call_site::here()) const {
    return read(&ibv_cq_ex::read_flow_tag, where);
  }

  /// Defined if flags() has completion_flag::tag_data_valid or tag_matched. Needs
  /// completion_field::tag_matching.
  [[nodiscard]] matched_tag tag(call_site where = call_site::here()) const {
    ibv_wc_tm_info info{};
    queue(where)->read_tm_info(queue_, &info);
    return {.tag = info.tag, .application_data = info.priv};
  }

  /// Success, or an error with the request, the status, the vendor error and the likely cause.
  /// Needs completion_field::queue_pair if !ok().
  [[nodiscard]] verbena::result<void> result(call_site where = call_site::here()) const {
    if (ok(where)) return {};
    return detail::completion_failure(
        {id(where), status(where), queue_pair(where), vendor_error(where)});
  }

  /// The queue of the C API, which stands on this completion.
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

/// Where a pass stands. Checked builds have a completion for each step, so that those of earlier
/// ones are known to be gone; the oldest of 256 of them on a thread is used again.
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

/// Logs a failure that nobody asked for.
void report_unread_polling_failure(int status) noexcept;
/// The failure; out of line, so that callers stay small.
[[nodiscard]] result<void> lazy_polling_failure(int status);
}  // namespace detail

/// One pass over the completions that are there: `for (const auto& done : cq.poll()) …`. Providers
/// hold the queue's lock from the beginning to the end of it, so nothing else may be asked of the
/// queue meanwhile, not even by the same thread; when that polls again, checked builds stop.
///
/// A failure of the device ends the pass; result() tells. When nobody asks, the destructor reports
/// it to the log. Threads: one thread at a time.
class [[nodiscard("a poll is a pass over completions: iterate")]] lazy_poll {
 public:
  /// An input iterator: it moves the whole pass.
  class iterator {
   public:
    /// What it points to.
    using value_type = lazy_completion;
    /// Of iterators; they are not subtracted.
    using difference_type = std::ptrdiff_t;
    /// One pass, and no way back.
    using iterator_concept = std::input_iterator_tag;

    /// Of a pass, which must outlive it. Precondition: the pass has begun.
    explicit iterator(lazy_poll& pass) noexcept : pass_(&pass) {}
    /// The completion that the pass stands on; gone with the next step.
    [[nodiscard]] const lazy_completion& operator*() const noexcept { return pass_->at_.here(); }
    /// Its members.
    [[nodiscard]] const lazy_completion* operator->() const noexcept { return &pass_->at_.here(); }
    /// Goes to the next completion.
    iterator& operator++() {
      ibv_cq_ex* const queue = pass_->at_.here().native();
      pass_->at_.step();
      pass_->code_ = detail::throwing_nothing(queue->next_poll)(queue);
      if (pass_->code_ == 0) detail::arrive(queue, pass_->where_);
      return *this;
    }
    /// Goes to the next completion.
    void operator++(int) { ++*this; }
    /// True when there is none left.
    [[nodiscard]] friend bool operator==(const iterator& at, std::default_sentinel_t) noexcept {
      return at.is_over();
    }

   private:
    [[nodiscard]] bool is_over() const noexcept { return pass_->code_ != 0; }

    lazy_poll* pass_;
  };

  /// Begins a pass over `queue`, of a device whose clock counts in the bits of `clock_mask`.
  explicit lazy_poll(ibv_cq_ex* queue, std::uint64_t clock_mask = ~std::uint64_t{0},
                     call_site where = call_site::here())
      : at_(queue, clock_mask, where), where_(where) {
    detail::open_alone(queue, "a thread has one open pass over a queue at a time", where);
    ibv_poll_cq_attr attributes{};
    code_ = detail::throwing_nothing(queue->start_poll)(queue, &attributes);
    started_ = code_ == 0;
    if (started_)
      detail::arrive(queue, where);
    else
      detail::end_alone(queue);
  }
  lazy_poll(const lazy_poll&) = delete;
  lazy_poll& operator=(const lazy_poll&) = delete;
  [[gnu::always_inline]] inline ~lazy_poll() {
    // A pass that found nothing is not ended: ibv_start_poll(3).
    ibv_cq_ex* const queue = at_.here().native();
    if (started_) {
      detail::throwing_nothing(queue->end_poll)(queue);
      detail::end_alone(queue);
    }
    if (code_ != 0 && code_ != ENOENT) [[unlikely]]
      detail::report_unread_polling_failure(code_);
  }

  /// Where the pass stands.
  [[nodiscard]] iterator begin() noexcept { return iterator(*this); }
  /// Behind the last completion.
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

  /// True when there is no completion to stand on: none was there, or the pass is through.
  [[nodiscard]] bool empty() const noexcept { return code_ != 0; }
  /// Success when the pass ran out of completions or was left early, else the device's failure.
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

/// A completion queue that is read lazily. It is a completion queue in all other ways: batches can
/// be polled from it, queue pairs complete into it. Threads: as completion_queue.
class extended_completion_queue : public completion_queue {
 public:
  /// Takes over or borrows a queue that the C API made from `of` with `fields`. A queue that is
  /// taken is changed: reading other fields then stops the program with a rule.
  [[nodiscard]] static extended_completion_queue adopt(ibv_cq_ex* native, const context& of,
                                                       ownership owner, completion_fields fields);

  /// Begins a pass over the completions that are there. Never blocks, never allocates.
  [[nodiscard]] lazy_poll poll(call_site where = call_site::here()) const {
    VERBENA_CHECK(extended_.get() != nullptr, "a moved-from completion queue must not be used");
    return lazy_poll(extended_.get(), clock_mask_, where);
  }
  using completion_queue::poll;

  /// The optional fields that can be read.
  [[nodiscard]] completion_fields fields() const noexcept { return fields_; }
  /// The queue of the C API, with its lazy reads.
  [[nodiscard]] ibv_cq_ex* native_extended() const noexcept { return extended_.get(); }

  /// Destroys the queue now, or hands it back with the reason.
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
