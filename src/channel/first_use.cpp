// SPDX-License-Identifier: MIT
// Channels that are connected by their first operations.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "src/channel/connection_options.hpp"
#include "src/channel/connection_record.hpp"
#include "src/channel/unconnected_channel.hpp"
#include "verbena/base/assert.hpp"

namespace verbena::inline VERBENA_ABI::detail {

void channel_core::connect_on_first_use(std::shared_ptr<first_use> by,
                                        std::uint32_t peer) noexcept {
  VERBENA_ASSERT(!queue_, "connect_on_first_use() of a channel that has a queue pair");
  record_->connector = std::move(by);
  record_->peer = peer;
  set_failure(std::nullopt);
}

bool channel_core::awaits_first_use() const noexcept { return record_->connector != nullptr; }

bool channel_core::is_connected() const {
  return queue_ || (awaits_first_use() && record_->connector->has_queue_pair(record_->peer));
}

bool channel_core::is_idle() const noexcept {
  return queue_ && in_flight() == 0 && !aborting_ && !is_queue_kept_ && failure() == nullptr &&
         connection() == nullptr && !record_->released.is_released();
}

queue_pair<rc> channel_core::release_idle(std::shared_ptr<first_use> by,
                                          std::uint32_t peer) noexcept {
  record_->connector = std::move(by);
  record_->peer = peer;
  free_ = {};
  return *std::exchange(queue_, std::nullopt);
}

void channel_core::connect_same(queue_pair<rc> queue) noexcept {
  queue_.emplace(std::move(queue));
  free_ = {options_.queues.max_send_wr, options_.queues.max_recv_wr};
  record_->connector.reset();
}

void channel_core::connect_first(queue_pair<rc> queue) {
  // The earlier connection was closed after release_idle().
  record_->book.finish(posted_);
  record_->book.begin(record_->book.next().self.connection);
  record_->book.meet(std::nullopt);
  connect_again(std::move(queue));
}

int channel_core::try_first_use(deadline until) {
  if (!awaits_first_use()) return 0;
  // Keeps the object alive: connect_first() resets the reference in the record.
  const std::shared_ptr<first_use> by = record_->connector;
  auto connected = by->connect(*this, record_->peer, until);
  if (connected) return 0;
  record_->first_use_failure = std::move(connected).error();
  const int code = record_->first_use_failure->code();
  return code != 0 ? code : ENOTCONN;
}

result<void> check_reconnectable(const char* call, const channel_core& core) {
  if (!core.awaits_first_use()) return {};
  return error::invalid_argument(
      call, core.domain().name(),
      "the channel is not connected yet: its group uses "
      "connect_mode::on_first_use; post an operation, which connects it");
}

result<channel_core*> create_unconnected_core(const protection_domain& domain,
                                              const std::shared_ptr<operation_table>& table,
                                              const channel_options& options) {
  VERBENA_TRY(const auto wanted, places_of(options));
  if (!table->reserve(wanted)) return no_room(domain, *table, wanted);
  slot_reservation slots(table, wanted);
  VERBENA_TRY(const auto limits, domain.context().query());
  sole_owner<connection_record> record(new connection_record{
      .book = connection_book(options.counts_messages ? counting::yes : counting::no)});
  if (options.route.gid_index) {
    VERBENA_TRY(record->chosen_gid,
                domain.context().query_gid(options.route.port, *options.route.gid_index));
  }
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the core counts its references itself
  return new channel_core({.queue = std::nullopt,
                           .slots = std::move(slots),
                           .domain = domain,
                           .options = options,
                           .max_read_sge = most_read_slices(options, limits),
                           .record = std::move(record)});
}

}  // namespace verbena::inline VERBENA_ABI::detail
