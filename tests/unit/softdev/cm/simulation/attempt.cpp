// SPDX-License-Identifier: MIT
#include "tests/unit/softdev/cm/simulation/attempt.hpp"

#include <algorithm>
#include <utility>

namespace verbena::softdev::cm::simulation {
namespace {

/// If neither program ends the connection for this long, both must have established it.
constexpr milliseconds long_enough{12'000};

reaction random_reaction(random_source& random) {
  if (!random.chance(300)) return reaction::accept;
  constexpr std::array others{reaction::reject, reaction::destroy, reaction::ignore};
  return others[random.below(others.size())];
}

milliseconds random_delay(random_source& random) {
  switch (random.below(4)) {
    case 0:
      return milliseconds(0);
    case 1:
      return milliseconds(random.below(20'000));
    default:
      return milliseconds(random.below(500));
  }
}

}  // namespace

attempt_plan choose_plan(random_source& random) {
  attempt_plan made;
  made.from = random.below(2);
  made.is_sidr = random.chance(150);
  made.start_at = now + milliseconds(random.below(2'000));
  made.to_request = random_reaction(random);
  made.to_reply = random_reaction(random);
  made.answer_after = random_delay(random);
  made.confirm_after = random_delay(random);
  if (random.chance(100)) made.give_up_after = milliseconds(random.below(5'000));
  const std::uint32_t who = 1 + random.below(3);  // one side, or both
  const milliseconds when =
      random.chance(300) ? long_enough + milliseconds(random.below(30'000)) : random_delay(random);
  for (std::uint32_t side = 0; side < 2; ++side) {
    if ((who >> side & 1U) != 0) made.end_after[side] = when + milliseconds(random.below(300));
    made.destroys[side] = random.chance(300);
  }
  return made;
}

// The data contain the number of the attempt, the kind of the message, and a pattern.

private_data attempt::data_of(frame_kind kind) const noexcept {
  private_data made;
  made.length = private_limit(kind);
  for (std::size_t i = 0; i < made.length; ++i)
    made.bytes[i] = static_cast<std::uint8_t>(number_ * 31 + static_cast<unsigned>(kind) * 7 + i);
  for (std::size_t i = 0; i < sizeof number_; ++i)
    made.bytes[i] = static_cast<std::uint8_t>(number_ >> 8 * i);
  return made;
}

std::uint32_t attempt::number_in(const private_data& data) noexcept {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < sizeof number; ++i) number |= std::uint32_t{data.bytes[i]} << 8 * i;
  return number;
}

bool attempt::carries(const event& what, frame_kind kind) const noexcept {
  const private_data wanted = data_of(kind);
  return what.data.length == wanted.length && what.data.bytes == wanted.bytes;
}

void attempt::require(bool condition, const char* what) {
  if (condition || !violation_.empty()) return;
  violation_ =
      "attempt " + std::to_string(number_) + " of host " + std::to_string(plan_.from) + ": " + what;
}

// The programs.

void attempt::perform(step what) {
  switch (what) {
    case step::start:
      return start();
    case step::answer:
      return answer();
    case step::confirm:
      return confirm();
    case step::give_up:
      return destroy(active);
    case step::end_active:
      return end(active);
    case step::end_passive:
      return end(passive);
  }
}

side attempt::create_queue_pair(std::size_t side) {
  ends_.at(side).queue_pair = place_of(side).numbers->take();
  return {.queue_pair = ends_.at(side).queue_pair};
}

/// Ends a side, which destroys its queue pair.
void attempt::finish(std::size_t side) {
  side_state& own = ends_.at(side);
  if (!own.ended && own.queue_pair != 0) place_of(side).numbers->give_back(own.queue_pair);
  own.ended = true;
}

void attempt::start() {
  host& own = *place_of(active).at;
  const address to = place_of(passive).at->listener_for(plan_.is_sidr);
  ends_[active].self = own.resolve(to, plan_.is_sidr);
  const auto kind = plan_.is_sidr ? frame_kind::sidr_request : frame_kind::request;
  require(own.all().connect(ends_[active].self,
                            {.local = create_queue_pair(active), .data = data_of(kind)}) == 0,
          "connect failed");
}

void attempt::answer() {
  side_state& own = ends_[passive];
  if (own.self == nullptr || own.ended || own.responded) return;
  manager& all = manager_of(passive);
  switch (plan_.to_request) {
    case reaction::accept: {
      const auto kind = plan_.is_sidr ? frame_kind::sidr_reply : frame_kind::reply;
      // The request may have ended: then accept() fails, or its effect is lost.
      if (all.accept(own.self, {.local = create_queue_pair(passive), .data = data_of(kind)}) != 0)
        return finish(passive);
      break;
    }
    case reaction::reject: {
      const auto kind = plan_.is_sidr ? frame_kind::sidr_reply : frame_kind::rejection;
      if (all.reject(own.self, reject_reason::consumer, data_of(kind)) != 0) return;
      finish(passive);
      break;
    }
    case reaction::destroy:
      return destroy(passive);
    case reaction::ignore:
      return;
  }
  own.responded = true;
}

void attempt::confirm() {
  side_state& own = ends_[active];
  if (own.self == nullptr || own.ended || own.disconnected) return;
  switch (plan_.to_reply) {
    case reaction::accept:
      // Fails if the other program has ended the connection.
      own.established = manager_of(active).establish(own.self) == 0;
      return;
    case reaction::reject:
      if (manager_of(active).reject(own.self, reject_reason::consumer,
                                    data_of(frame_kind::rejection)) == 0)
        finish(active);
      return;
    case reaction::destroy:
      return destroy(active);
    case reaction::ignore:
      return;
  }
}

void attempt::end(std::size_t side) {
  side_state& own = ends_.at(side);
  if (own.self == nullptr || !own.responded || own.ended) return;
  if (plan_.destroys.at(side)) return destroy(side);
  require(manager_of(side).disconnect(own.self) == 0, "disconnect failed");
  own.leaves = true;
}

void attempt::destroy(std::size_t side) {
  side_state& own = ends_.at(side);
  if (own.self == nullptr) return;
  manager_of(side).destroy(std::exchange(own.self, nullptr));
  own.destroyed = true;
  finish(side);
}

// The oracle.

void attempt::request_arrived(const event& what) {
  const bool is_first = ends_[passive].self == nullptr && !ends_[passive].destroyed;
  if (!is_first) {
    require(!is_reliable_, "a second request arrived");
    manager_of(passive).destroy(what.about);
    return;
  }
  ends_[passive].self = what.about;
  require(carries(what, plan_.is_sidr ? frame_kind::sidr_request : frame_kind::request),
          "private data of the request");
  require(plan_.is_sidr || what.remote.queue_pair == ends_[active].queue_pair,
          "queue pair of the request");
}

void attempt::judge(const event& what) {
  if (what.about == ends_[active].self)
    judge_active(what);
  else
    judge_passive(what);
}

/// Returns whether a side can get an event of a rejection: the other side has rejected, was
/// destroyed, or waited too long, or a host still has an older connection of a queue pair.
bool attempt::may_be_rejected(std::size_t side) const noexcept {
  const side_state& other = ends_.at(1 - side);
  return !is_reliable_ || other.destroyed || other.ended || ends_.at(side).stale;
}

void attempt::judge_active(const event& what) {
  side_state& own = ends_[active];
  const side_state& other = ends_[passive];
  switch (what.kind) {
    case event_kind::address_resolved:
    case event_kind::route_resolved:
      return;
    case event_kind::connect_response:
      require(!plan_.is_sidr && !own.responded && !own.ended, "an unexpected reply");
      require(other.responded && plan_.to_request == reaction::accept, "a reply without an answer");
      require(what.remote.queue_pair == other.queue_pair, "queue pair of the reply");
      require(carries(what, frame_kind::reply), "private data of the reply");
      own.responded = true;
      return;
    case event_kind::established:
      require(
          plan_.is_sidr && !own.ended && other.responded && plan_.to_request == reaction::accept,
          "an unexpected result of SIDR");
      require(what.remote.queue_pair == other.queue_pair, "queue pair of SIDR");
      require(carries(what, frame_kind::sidr_reply), "private data of SIDR");
      own.established = true;
      return finish(active);
    case event_kind::rejected:
      own.stale = what.status == static_cast<int>(reject_reason::stale_connection);
      require(!plan_.is_sidr && !own.ended && !own.disconnected && may_be_rejected(active),
              "an unexpected rejection at the active side");
      if (is_reliable_ && !own.responded && plan_.to_request == reaction::reject && other.responded)
        require(what.status == static_cast<int>(reject_reason::consumer) &&
                    carries(what, frame_kind::rejection),
                "the reason or private data of the rejection");
      return finish(active);
    case event_kind::unreachable: {
      const bool is_refusal = plan_.is_sidr && may_be_rejected(active);
      require(!own.ended && (!is_reliable_ || is_refusal || plan_.to_request == reaction::ignore),
              "unreachable at the active side");
      return finish(active);
    }
    default:
      return judge_both(what, active);
  }
}

void attempt::judge_passive(const event& what) {
  side_state& own = ends_[passive];
  const side_state& other = ends_[active];
  require(!plan_.is_sidr, "an event of a datagram service");
  switch (what.kind) {
    case event_kind::established:
      require(!own.established && !own.ended && other.established,
              "established without a confirmation");
      own.established = true;
      return;
    case event_kind::rejected:
      require(!own.ended && !own.disconnected && !own.established && may_be_rejected(passive),
              "an unexpected rejection at the passive side");
      own.stale = what.status == static_cast<int>(reject_reason::stale_connection);
      return finish(passive);
    case event_kind::unreachable:
      require(!own.ended && (!is_reliable_ || plan_.to_reply == reaction::ignore ||
                             other.destroyed || other.ended),
              "unreachable at the passive side");
      return finish(passive);
    default:
      return judge_both(what, passive);
  }
}

void attempt::judge_both(const event& what, std::size_t side) {
  side_state& own = ends_.at(side);
  const side_state& other = ends_.at(1 - side);
  switch (what.kind) {
    case event_kind::disconnected:
      require(own.responded && !own.ended && !own.disconnected, "an unexpected end");
      require(own.leaves || other.leaves || other.destroyed || other.ended || !is_reliable_,
              "disconnected without a cause");
      own.disconnected = true;
      return;
    case event_kind::timewait_exit:
      require(own.disconnected && !own.left_timewait, "an unexpected end of timewait");
      own.left_timewait = true;
      return finish(side);
    default:
      return require(false, "an unexpected kind of event");
  }
}

void attempt::judge_end() {
  const side_state& one = ends_[active];
  const side_state& other = ends_[passive];
  const bool is_stale = one.stale || other.stale;
  for (const side_state& each : ends_) {
    require(!each.leaves || each.disconnected || each.destroyed, "disconnect() without an event");
    require(!each.disconnected || each.left_timewait || each.destroyed, "timewait has no end");
  }
  require(one.responded || one.ended, "a request without a result");
  // If the passive side ends before the RTU, its rejection is sent once and can be lost.
  const bool left_early = other.responded && !other.established && !other.disconnected &&
                          other.ended && plan_.to_request == reaction::accept && !plan_.is_sidr;
  if (is_reliable_ && !left_early && !is_stale) {
    const bool gives_up = plan_.give_up_after != milliseconds::max();
    const bool accepts = plan_.to_request == reaction::accept &&
                         (plan_.is_sidr || plan_.to_reply == reaction::accept);
    require(one.ended, "the active side has no result");
    require(!accepts || gives_up || one.established, "not established");
    const milliseconds first_end = std::min(plan_.end_after[0], plan_.end_after[1]);
    const bool lasts = accepts && !gives_up && !plan_.is_sidr && first_end >= long_enough;
    require(!lasts || other.established, "not established at the passive side");
    for (const side_state& each : ends_)
      require(!one.established || plan_.is_sidr || each.disconnected || each.destroyed,
              "an end has no event");
  }
  for (const std::size_t side : {active, passive}) destroy(side);
}

}  // namespace verbena::softdev::cm::simulation
