// SPDX-License-Identifier: MIT
#include "verbena/net/multi_rail_channel.hpp"

#include <utility>
#include <vector>

#include "src/net/rail_checks.hpp"
#include "src/net/rail_set.hpp"

namespace verbena::inline VERBENA_ABI::net {

namespace detail {
// NOLINTNEXTLINE(cppcoreguidelines-owning-memory): the sole_owner calls it
void destroy(rail_set& of) noexcept { delete &of; }
}  // namespace detail

const error& rail_result::error() const {
  VERBENA_ASSERT(error_.has_value(), "error() of an operation that succeeded: check it first");
  return *error_;
}

result<multi_rail_channel> multi_rail_channel::connect(bringup::stream control,
                                                       std::span<const rail_port> rails,
                                                       deadline until,
                                                       const rail_options& options) {
  constexpr const char* call = "multi_rail_channel::connect";
  VERBENA_TRY_VOID(detail::check_rails(call, rails));
  VERBENA_TRY_VOID(detail::check_options(call, options));
  const auto count = static_cast<std::uint32_t>(rails.size());
  std::vector<detail::active_rail> made;
  made.reserve(count);
  for (std::uint32_t each = 0; each < count; ++each) {
    VERBENA_TRY(auto rail, detail::active_rail::create(each, rails[each], options));
    made.push_back(std::move(rail));
  }
  VERBENA_TRY_VOID(detail::exchange_hellos(call, control, detail::rail_role::active, count, until));
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): of the sole_owner
  multi_rail_channel out(new detail::rail_set(detail::rail_control(std::move(control), count),
                                              std::move(made), options));
  VERBENA_TRY_VOID(out.set_->connect(until));
  return out;
}

rail_result multi_rail_channel::write(const rail_source& data, const rail_region& to,
                                      deadline until) {
  return set_->run("multi_rail_channel::write",
                   {.direction = detail::rail_direction::write, .local = data, .remote = to},
                   until);
}

rail_result multi_rail_channel::read(const rail_sink& into, const rail_region& from,
                                     deadline until) {
  return set_->run("multi_rail_channel::read",
                   {.direction = detail::rail_direction::read,
                    .local = rail_source(into.memory(), into.offset(), into.length()),
                    .remote = from},
                   until);
}

void multi_rail_channel::progress() { set_->tend(deadline::clock::now()); }

void multi_rail_channel::take(std::uint32_t rail, const async_event& event) {
  VERBENA_ASSERT(rail < rails(), "a rail is not less than the number of rails");
  set_->take(rail, event);
}

std::uint32_t multi_rail_channel::rails() const noexcept { return set_->size(); }

rail_status multi_rail_channel::status(std::uint32_t rail) const {
  VERBENA_ASSERT(rail < rails(), "a rail is not less than the number of rails");
  return (*set_)[rail].status();
}

const error* multi_rail_channel::failure() const noexcept { return set_->failure(); }

}  // namespace verbena::inline VERBENA_ABI::net
