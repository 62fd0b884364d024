// SPDX-License-Identifier: MIT
#include "verbena/verbs/extended_completion_queue.hpp"

#include <fmt/format.h>

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "src/verbs/bit_names.hpp"
#include "src/verbs/clock_mask.hpp"
#include "src/verbs/completion_queue_creation.hpp"
#include "src/verbs/creation.hpp"
#include "src/verbs/rxe_defects.hpp"
#include "verbena/base/log.hpp"
#include "verbena/verbs/context.hpp"

namespace verbena::inline VERBENA_ABI {
namespace {

// Reads of a field that the queue was not created with stop the program without a check on the data
// path: guard() replaces the read function of the native queue.
template <auto Member, completion_field Field>
struct reader;
template <class Return, class... Arguments, Return (*ibv_cq_ex::*Member)(ibv_cq_ex*, Arguments...),
          completion_field Field>
struct reader<Member, Field> {
  static Return refuse(ibv_cq_ex* /*queue*/, Arguments... /*arguments*/) {
    // Static, because the handler of broken rules may keep the pointer.
    static const std::string rule = fmt::format(
        "a completion was read for {}, but its completion queue was created without this field; "
        "add the field to .fields",
        to_string(Field));
    detail::stop_on_violation(rule.c_str(), __FILE__, __LINE__);
  }
  static void guard(ibv_cq_ex& queue, completion_fields asked) noexcept {
    if (!asked.contains(Field)) queue.*Member = &refuse;
  }
};

void guard_fields(ibv_cq_ex& queue, completion_fields asked) noexcept {
  using field = completion_field;
  reader<&ibv_cq_ex::read_byte_len, field::byte_length>::guard(queue, asked);
  reader<&ibv_cq_ex::read_imm_data, field::immediate>::guard(queue, asked);
  reader<&ibv_cq_ex::read_qp_num, field::queue_pair>::guard(queue, asked);
  reader<&ibv_cq_ex::read_src_qp, field::source_queue_pair>::guard(queue, asked);
  reader<&ibv_cq_ex::read_slid, field::source_lid>::guard(queue, asked);
  reader<&ibv_cq_ex::read_sl, field::service_level>::guard(queue, asked);
  reader<&ibv_cq_ex::read_dlid_path_bits, field::destination_path_bits>::guard(queue, asked);
  reader<&ibv_cq_ex::read_completion_ts, field::timestamp>::guard(queue, asked);
  reader<&ibv_cq_ex::read_cvlan, field::vlan>::guard(queue, asked);
  reader<&ibv_cq_ex::read_flow_tag, field::flow_tag>::guard(queue, asked);
  reader<&ibv_cq_ex::read_tm_info, field::tag_matching>::guard(queue, asked);
  reader<&ibv_cq_ex::read_completion_wallclock_ns, field::wall_clock>::guard(queue, asked);
}

// Returns the mask of the device's clock if the queue has timestamps.
std::uint64_t clock_mask_for(completion_fields fields, const context& of) {
  return fields.contains(completion_field::timestamp) ? detail::clock_mask_of(of)
                                                      : ~std::uint64_t{0};
}

// Sets IBV_CQ_INIT_ATTR_MASK_FLAGS only with flags: old providers refuse the mask.
void set_flags(ibv_cq_init_attr_ex& asked, const extended_completion_queue_options& options) {
  if (options.single_threaded) asked.flags |= IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  if (options.ignore_overrun) asked.flags |= IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
  if (asked.flags != 0) asked.comp_mask |= IBV_CQ_INIT_ATTR_MASK_FLAGS;
}

#ifdef VERBENA_CHECKED
using lazy_completions = std::deque<std::unique_ptr<lazy_completion>>;

// The completions of this thread that are no longer valid, oldest first.
lazy_completions& gone_here() {
  thread_local lazy_completions gone;
  return gone;
}

// Returns a new completion. If there are many invalid ones, reuses the memory of the oldest.
std::unique_ptr<lazy_completion> lazy_completion_at(ibv_cq_ex* queue, std::uint64_t clock_mask,
                                                    call_site polled) {
  constexpr std::size_t most = 256;
  auto& gone = gone_here();
  if (gone.size() < most) return std::make_unique<lazy_completion>(queue, clock_mask, polled);
  auto oldest = std::move(gone.front());
  gone.pop_front();
  std::destroy_at(oldest.get());
  std::construct_at(oldest.get(), queue, clock_mask, polled);
  return oldest;
}
#endif

}  // namespace

#ifdef VERBENA_CHECKED
namespace detail {

void record_completions(ibv_cq_ex* queue, call_site where) {
  using number_reader = reader<&ibv_cq_ex::read_qp_num, completion_field::queue_pair>;
  in_flight::polled_completion polled{.id = queue->wr_id,
                                      .queue_pair = {},
                                      .is_receive = {},
                                      .ok = queue->status == IBV_WC_SUCCESS};
  if (queue->read_qp_num != nullptr && queue->read_qp_num != &number_reader::refuse)
    polled.queue_pair = queue->read_qp_num(queue);
  if (polled.ok && queue->read_opcode != nullptr)
    polled.is_receive = (queue->read_opcode(queue) & IBV_WC_RECV) != 0;
  in_flight::complete(queue->context, queue, {&polled, 1}, where);
}

lazy_position::lazy_position(ibv_cq_ex* queue, std::uint64_t clock_mask, call_site polled)
    : here_(lazy_completion_at(queue, clock_mask, polled)) {}

lazy_position::~lazy_position() {
  here_->polled_.leave();
  gone_here().push_back(std::move(here_));
}

void lazy_position::step() {
  auto next = lazy_completion_at(here_->queue_, here_->clock_mask_, here_->polled_.place());
  here_->polled_.leave();
  gone_here().push_back(std::exchange(here_, std::move(next)));
}

}  // namespace detail
#endif

std::string to_string(completion_fields fields) {
  static constexpr std::array<detail::named_bit, 12> names = {
      {{IBV_WC_EX_WITH_BYTE_LEN, "BYTE_LEN"},
       {IBV_WC_EX_WITH_IMM, "IMM"},
       {IBV_WC_EX_WITH_QP_NUM, "QP_NUM"},
       {IBV_WC_EX_WITH_SRC_QP, "SRC_QP"},
       {IBV_WC_EX_WITH_SLID, "SLID"},
       {IBV_WC_EX_WITH_SL, "SL"},
       {IBV_WC_EX_WITH_DLID_PATH_BITS, "DLID_PATH_BITS"},
       {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, "COMPLETION_TIMESTAMP"},
       {IBV_WC_EX_WITH_CVLAN, "CVLAN"},
       {IBV_WC_EX_WITH_FLOW_TAG, "FLOW_TAG"},
       {IBV_WC_EX_WITH_TM_INFO, "TM_INFO"},
       {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, "COMPLETION_TIMESTAMP_WALLCLOCK"}}};
  return detail::names_of_bits(fields.mask(), names);
}

result<void> detail::lazy_polling_failure(int status) { return polling_failure(status); }

void detail::report_unread_polling_failure(int status) noexcept {
  log(log_level::error, polling_failure(status).message());
}

result<extended_completion_queue> context::create_extended_cq(std::uint32_t capacity) const {
  return create_extended_cq(capacity, extended_completion_queue_options{});
}

result<extended_completion_queue> context::create_extended_cq(
    std::uint32_t capacity, const extended_completion_queue_options& options) const {
  return detail::create_extended_queue(
      *this, capacity, options,
      {"ibv_create_cq_ex", [](const context& of, ibv_cq_init_attr_ex& asked) {
         return detail::call_create(of.provider().verbs.create_cq_ex, of.native(), &asked);
       }});
}

result<extended_completion_queue> detail::create_extended_queue(
    const context& of, std::uint32_t capacity, const extended_completion_queue_options& options,
    const extended_queue_creator& with) {
  const completion_queue_request request{with.call, capacity, options.completion_vector};
  VERBENA_TRY_VOID(check_completion_queue(of, request, options.channel));
  ibv_cq_init_attr_ex asked{};
  asked.cqe = capacity;
  asked.channel = options.channel ? options.channel->native() : nullptr;
  asked.comp_vector = options.completion_vector;
  asked.wc_flags = options.fields.mask();
  set_flags(asked, options);
  VERBENA_TRY(const bool has_defects, is_rxe(of));
  const auto made = with.create(of, asked);
  if (!made && made.code == EOPNOTSUPP)
    return error::not_supported(
        with.call, of.name(),
        fmt::format("the device does not support extended completion "
                    "queues, the fields {}{}: use create_cq()",
                    to_string(options.fields), asked.flags != 0 ? ", or the requested flags" : ""));
  if (!made) return completion_queue_error(of, request, made.code);
  auto owner = make_owner(of.provider().verbs, ibv_cq_ex_to_cq(made.native), [&](ibv_cq* owned) {
    return make_completion_queue_state(owned, of, ownership::take, options.channel);
  });
  guard_fields(*made.native, options.fields);
  if (has_defects) correct_polling(*made.native);
  return internals::make<extended_completion_queue>(std::move(owner), made.native, options.fields,
                                                    clock_mask_for(options.fields, of));
}

extended_completion_queue extended_completion_queue::adopt(ibv_cq_ex* native, const context& of,
                                                           ownership owner,
                                                           completion_fields fields) {
  VERBENA_ASSERT(native != nullptr, "extended_completion_queue::adopt() with a null pointer");
  VERBENA_ASSERT(native->context == of.native(),
                 "extended_completion_queue::adopt() with another context");
  if (owner == ownership::take) {
    guard_fields(*native, fields);
    if (detail::is_rxe(of).value_or(false)) detail::correct_polling(*native);
  }
  return {detail::make_completion_queue_state(ibv_cq_ex_to_cq(native), of, owner, std::nullopt),
          native, fields, clock_mask_for(fields, of)};
}

close_result<extended_completion_queue> extended_completion_queue::close() && {
  return close_handle(std::move(*this));
}

}  // namespace verbena::inline VERBENA_ABI
