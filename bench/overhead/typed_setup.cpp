// SPDX-License-Identifier: MIT
// Creates the objects of the C++ cases: adopts native objects of the null provider. Not measured.
#include <span>
#include <utility>

#include "bench/null_provider/null_provider.h"
#include "bench/overhead/typed.hpp"

namespace {

// Returns a provider with the functions that adopt() and destructors call.
verbena::provider make_null_provider() {
  verbena::provider made;
  auto& verbs = made.verbs;
  verbs.get_device_name.set([](ibv_device* device) -> const char* { return device->name; });
  verbs.close_device.set([](ibv_context* context) { return null_close(context), 0; });
  verbs.alloc_pd.set(&null_create_pd);
  verbs.dealloc_pd.set([](ibv_pd* pd) { return null_destroy_pd(pd), 0; });
  verbs.reg_mr.set([](ibv_pd* pd, void* address, std::size_t length, int) {
    return null_create_mr(pd, address, length);
  });
  verbs.dereg_mr.set([](ibv_mr* mr) { return null_destroy_mr(mr), 0; });
  verbs.destroy_cq.set([](ibv_cq* cq) { return null_destroy_cq(cq), 0; });
  verbs.qp_to_qp_ex.set(&null_qp_to_qp_ex);
  verbs.destroy_ah.set([](ibv_ah* ah) { return null_destroy_ah(ah), 0; });
  verbs.destroy_srq.set([](ibv_srq* srq) { return null_destroy_srq(srq), 0; });
  verbs.destroy_qp.set([](ibv_qp* qp) { return null_destroy_qp(qp), 0; });
  return made;
}

template <std::size_t... Slot>
auto make_slices(const verbena::memory_region& region, std::size_t bytes,
                 std::index_sequence<Slot...>) {
  return std::array{region.slice(Slot * overhead_slot_bytes, bytes)...};
}

template <std::size_t... Slot>
auto make_inlined(std::span<const std::byte> bytes, std::index_sequence<Slot...>) {
  return std::array{
      verbena::inline_data(bytes.subspan(Slot * overhead_slot_bytes, overhead_slot_bytes))...};
}

template <std::size_t... Slot>
auto make_remotes(std::index_sequence<Slot...>) {
  return std::array{
      verbena::remote_region({.address = OVERHEAD_REMOTE_ADDRESS + Slot * overhead_slot_bytes,
                              .length = overhead_slot_bytes,
                              .key = verbena::remote_key(null_remote_key)})...};
}

}  // namespace

#define ENTRY(name, operations) {#name, operations, case_##name},
const overhead_case overhead_cases[] = {OVERHEAD_CASES(ENTRY) OVERHEAD_POSTER_CASES(ENTRY)
                                            OVERHEAD_SINGLE_CASES(ENTRY)};
const std::size_t overhead_case_count = std::size(overhead_cases);

overhead_objects* overhead_set_up(overhead_queues* queues) {
  static const verbena::provider provider = make_null_provider();
  static std::array<std::byte, overhead_slots * overhead_slot_bytes> bytes{};
  constexpr auto take = verbena::ownership::take;
  constexpr auto slots = std::make_index_sequence<overhead_slots>();

  ibv_context* const native = null_open();
  const auto context = verbena::context::adopt(native, provider, take);
  const auto pd = context.allocate_pd().value();
  ibv_cq* const cq = null_create_cq(native);
  *queues = {.classic = null_create_qp(pd.native(), cq),
             .extended = null_create_qp_ex(pd.native(), cq),
             .datagram = null_create_qp_ex(pd.native(), cq),
             .shared = null_create_srq(pd.native())};
  queues->datagram->qp_type = IBV_QPT_UD;
  auto qp = verbena::queue_pair<verbena::rc>::adopt(queues->classic, pd, take);
  auto qp_with_extended =
      verbena::queue_pair<verbena::rc>::adopt(null_qp_to_qp_ex(queues->extended), pd, take);
  const auto extended_queue = qp_with_extended.extended().value();
  auto datagrams =
      verbena::queue_pair<verbena::ud>::adopt(null_qp_to_qp_ex(queues->datagram), pd, take);
  const auto datagrams_extended = datagrams.extended().value();
  const auto way = verbena::address_handle::adopt(null_create_ah(pd.native()), pd, take);
  const auto to = way.destination(verbena::queue_pair_number(overhead_remote_number),
                                  verbena::queue_key(overhead_remote_qkey));
  auto region = pd.register_memory(bytes, verbena::access::local_write).value();
  const auto local = make_slices(region, overhead_slot_bytes, slots);
  const auto words = make_slices(region, 8, slots);
  // Never freed: the driver uses the objects until the program ends.
  return new overhead_objects{
      .qp = std::move(qp),
      .qp_with_extended = std::move(qp_with_extended),
      .extended = extended_queue,
      .cq = verbena::completion_queue::adopt(cq, context, take),
      .lazy_cq = verbena::extended_completion_queue::adopt(
          null_create_cq_ex(native), context, take,
          verbena::completion_field::byte_length | verbena::completion_field::immediate),
      .region = std::move(region),
      .local = local,
      .remote = make_remotes(slots),
      .datagrams = std::move(datagrams),
      .datagrams_extended = datagrams_extended,
      .shared = verbena::shared_receive_queue::adopt(queues->shared, pd, take),
      .way = way,
      .to = to,
      .words = words,
      .inlined = make_inlined(bytes, slots)};
}
