// SPDX-License-Identifier: MIT
// Messages between the ranks of a group. A message is an RDMA write to memory of the receiver, the
// board. Barriers and collective operations consist of these messages. The board of a rank has
// these parts:
//
//   failure    a rank whose operation has failed writes the failed rank, its own rank and the epoch
//   entered    the number of operations that this rank has entered: one word for all members, and
//              7 words for the most recent subsets, with a tag of the ranks. Other ranks read the
//              line after a failure
//   arrivals   one line per rank, which only that rank writes: one word for each of its last 4
//              messages, the number of messages that it has received from this rank, and its state:
//              a rank that takes part in no operation until the next epoch writes the reason
//   outgoing   one line per rank: the words to write to the board of that rank, for messages and
//              acknowledgments; and one line for failures and states. A word is overwritten only
//              after the write that reads it has completed
//   seen       one line per rank: a copy of the line `entered` of that rank
//   payload    4 slots per rank: the bytes of the last 4 messages of that rank
//   described  the arguments of the last 16 operations of this rank, with their tags, and a copy of
//              those of another rank. A rank reads them for an error, if a message has another tag
//
// The word of a message contains the number of the message between its two ranks, and a tag that
// depends on the operation. The word is written after the bytes. A sender waits while 4 messages
// are unacknowledged. The receiver acknowledges every second message.
//
// An epoch begins when the members of the group change (renewal.hpp). Tags, message numbers and
// failures depend on the epoch.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "src/net/operation_values.hpp"
#include "verbena/base/function_ref.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/net/multi_channel.hpp"
#include "verbena/net/reduction.hpp"
#include "verbena/net/store_client.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// The name of an operation in errors.
struct operation_name {
  const char* function;  ///< "all_reduce"
  const char* noun;      ///< "an all_reduce"
};

/// Registered memory of this process; may be empty. Threads: immutable value.
struct registered_bytes {
  std::byte* data = nullptr;
  std::size_t length = 0;
  local_key key = {};
  const ibv_pd* domain = nullptr;

  registered_bytes() noexcept = default;
  explicit registered_bytes(const source& of) : registered_bytes(of.slice(), of.domain()) {}
  explicit registered_bytes(const sink& of) : registered_bytes(of.slice(), of.domain()) {}
  [[nodiscard]] registered_bytes part(std::size_t offset, std::size_t bytes) const {
    auto made = *this;
    made.data += offset;
    made.length = bytes;
    return made;
  }

 private:
  registered_bytes(const local_slice& of, const ibv_pd* in)
      : data(reinterpret_cast<std::byte*>(of.address())),
        length(of.length()),
        key(of.key()),
        domain(in) {}
};

class rank_board;
class board_turn;
struct collective;

/// The interval at which a waiting rank checks for ranks that have left or take part in no
/// operation.
inline constexpr std::chrono::milliseconds time_to_check_ranks{2};

/// The reason why a rank takes part in no operation until the next epoch. The numbers are in words.
enum class rank_state : std::uint32_t {
  works = 0,    ///< the rank takes part in operations
  failed = 1,   ///< an operation of the rank has failed
  shrinks = 2,  ///< the rank is in shrink()
};

/// The ranks and the deadline of an operation, and the objects of its group.
struct participants {
  rank_board& board;
  multi_channel& channels;
  store_client& client;  // reports the ranks that have left
  std::span<const std::uint32_t> ranks;
  deadline until;
  const board_turn* turn = nullptr;  // nullptr: a blocking operation
};

/// A step of an operation: data to one rank and data from another rank, at the same time, in
/// messages of at most most_bytes(). If the length is 0, there is no message, except in barriers.
struct board_step {
  std::optional<std::uint32_t> to = {};    ///< the receiver of `out`
  std::optional<std::uint32_t> from = {};  ///< the sender of `into`
  registered_bytes out = {};
  /// If `into` is the memory of `out`, each byte is stored only after it was sent.
  registered_bytes into = {};
  const combination* with = nullptr;  ///< combines the bytes; nullptr: copies them
  /// Ranks from which later steps receive messages.
  std::span<const std::uint32_t> later = {};
};
/// Sets `out` to the step of an algorithm with this number. Returns false after the last step.
using step_function = bool (*)(const collective& in, std::size_t number, board_step& out);

/// A word of the outgoing line for a rank.
struct board_word {
  std::size_t place;
  std::uint64_t value;
};
/// A write of a word or of bytes to the board of a rank.
struct board_write {
  std::uint32_t rank = 0;
  registered_bytes from = {};
  std::optional<board_word> word = {};
  std::size_t peer_offset = 0;
  bool is_acknowledgment = false;
};
/// The writes of one send or receive, oldest first. Threads: one thread at a time.
class pending_writes {
 public:
  [[nodiscard]] bool empty() const noexcept { return next_ == end_; }
  [[nodiscard]] const board_write& front() const { return writes_.at(next_); }
  void pop() noexcept {
    if (++next_ == end_) next_ = end_ = 0;
  }
  /// Precondition: at most one push since the object was last empty.
  void push(const board_write& what) { writes_.at(end_++) = what; }

 private:
  std::array<board_write, 2> writes_;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
};

/// An operation in progress. Threads: one thread at a time, with the board.
struct collective {
  /// The time limit of the first attempt to connect a channel. Between attempts, the operation
  /// checks for failures of other ranks. Each further attempt has twice the time, at most
  /// longest_time_to_connect, so that slow connections succeed.
  static constexpr std::chrono::nanoseconds first_time_to_connect = std::chrono::milliseconds(100);
  static constexpr std::chrono::nanoseconds longest_time_to_connect =
      std::chrono::milliseconds(3000);

  multi_channel& channels;
  store_client& client;
  operation_name name;
  std::span<const std::uint32_t> ranks;
  deadline until;
  deadline give_up;
  std::uint32_t tag;
  std::uint64_t entered;  // the word in `entered` of this operation
  std::size_t index;      // index of this rank in `ranks`

  // The algorithm and its arguments:
  step_function next = nullptr;
  bool is_barrier = false;
  registered_bytes data = {};
  registered_bytes out = {};  // source of all_to_all
  std::size_t root = 0;       // index of the root in `ranks`
  const combination* with = nullptr;
  /// The size of an element in bytes. Elements are not divided between messages. Equal on all
  /// ranks.
  std::size_t element_bytes = 1;

  // Its progress:
  std::size_t step_number = 0;  // number of the next step
  bool has_step = false;
  board_step step = {};
  std::size_t sent = 0;  // bytes of the step, or 1 in a barrier
  std::size_t received = 0;
  bool receives_next = false;  // to alternate sends and receives
  pending_writes pending = {};
  std::chrono::nanoseconds time_to_connect = first_time_to_connect;
  deadline connect_by = deadline::never();  // for the current connection if `until` is never
  std::uint64_t moves = 0;                  // number of messages and writes: detects progress
  bool has_watched = false;
  bool has_watched_late = false;  // since the deadline passed
  deadline next_check;            // when to check for ranks that have left

  /// Returns the rank at `place` in `ranks`, modulo count().
  [[nodiscard]] std::uint32_t at(std::size_t place) const { return ranks[place % ranks.size()]; }
  [[nodiscard]] std::size_t count() const noexcept { return ranks.size(); }
  [[nodiscard]] bool must_send() const noexcept {
    return step.to && sent < (is_barrier ? 1 : step.out.length);
  }
  [[nodiscard]] bool must_receive() const noexcept {
    return step.from && received < (is_barrier ? 1 : step.into.length);
  }
  /// Returns the maximum length of a message in bytes. All messages of a step except the last have
  /// this length.
  [[nodiscard]] std::size_t most_bytes() const noexcept;
};

/// The board of this rank, and the operations on it. Threads: one thread at a time, with the
/// channels.
class rank_board {
 public:
  /// Allocates the board of a rank. Errors: those of protection_domain::allocate().
  [[nodiscard]] static result<rank_board> create(const protection_domain& domain,
                                                 std::uint32_t rank, std::uint32_t size);
  /// Returns the remote region of the board, for the other ranks.
  [[nodiscard]] remote_region remote() const { return memory_.remote(); }
  /// Sets the members and the boards of all ranks. Errors: `protocol` with the member whose board
  /// is too small.
  [[nodiscard]] result<void> connect(std::vector<remote_region> boards,
                                     std::span<const std::uint32_t> members);

  /// Sets the time limit for connecting a channel in operations without a deadline.
  void set_first_use_timeout(std::chrono::nanoseconds timeout) { first_use_timeout_ = timeout; }

  /// Reads the line `entered` of the boards of `ranks`. If a read completes, all earlier requests
  /// on that channel have completed. Returns the ranks whose reads did not succeed, in ascending
  /// order.
  [[nodiscard]] std::vector<std::uint32_t> probe(multi_channel& channels,
                                                 std::span<const std::uint32_t> ranks,
                                                 deadline until);
  /// Writes to the boards of `ranks` that this rank is in shrink(). Operations of these ranks that
  /// wait for a message of this rank then fail. Waits at most 100 ms, for room in full send queues.
  /// Precondition: the channels to `ranks` are connected.
  void announce_shrink(multi_channel& channels, std::span<const std::uint32_t> ranks);
  /// Writes to the boards of `ranks` that this rank is no longer in shrink(), since shrink() has
  /// failed. Waits at most 1 s until the writes have completed.
  void withdraw_shrink(multi_channel& channels, std::span<const std::uint32_t> ranks);
  /// Makes all operations fail with `why` until the next epoch.
  void stop(error why);
  /// Makes all operations fail with `why` until resume() or the next epoch.
  void stop_for_agreement(error why);
  [[nodiscard]] bool awaits_agreement() const noexcept { return awaits_agreement_; }
  void resume();
  /// Clears the board for a new epoch. Precondition: no rank writes to the board.
  void clear(std::uint32_t epoch, std::span<const std::uint32_t> members);
  /// Permits operations again. From now on, other ranks may write to the board.
  void start(std::span<const std::uint32_t> members);

  /// Begins an operation. `what` must be equal on all ranks of the operation. Errors: the
  /// error of an earlier operation; `invalid_argument` if the ranks are not in ascending order, are
  /// not members, or do not contain this rank, or if it is not the turn of the operation.
  [[nodiscard]] result<collective> enter(const participants& of, operation_name name,
                                         const operation_values& what);
  /// Polls until an operation has ended.
  [[nodiscard]] result<void> run(collective& in);
  /// Polls once and continues an operation without blocking. Returns true when the operation has
  /// ended.
  [[nodiscard]] result<bool> poll(collective& in);
  /// Fails the operation in progress, because its steps were destroyed or an exception was thrown.
  void cancel(collective& in) noexcept;
  /// Fails a queued operation in steps. The operation in progress fails too, because later
  /// operations of this rank would be matched with the wrong operations of other ranks. Returns the
  /// failure of the board.
  [[nodiscard]] error give_up(const participants& of, operation_name name, error why);
  /// Calls give_up() because the steps were destroyed.
  void give_up(const participants& of, operation_name name) noexcept;
  /// Ends the connections with operations in flight if requests of the board may be among them:
  /// operations of the program can outlive the board, and with them the queue pairs, which would
  /// access the memory of the board. Blocks for at most 5 s for each connection.
  void end_requests(multi_channel& channels) noexcept;
  /// Returns the failure of the operations of this epoch.
  [[nodiscard]] const std::optional<error>& failure() const noexcept { return failure_; }
  [[nodiscard]] std::uint32_t epoch() const noexcept { return epoch_; }
  /// Returns true if shrink() and readmit() are not permitted: an operation in steps is in
  /// progress, or is queued and the board has not failed.
  [[nodiscard]] bool is_in_progress() const noexcept {
    return running_ != nullptr || (first_turn_ != nullptr && !failure_);
  }

 private:
  friend class board_turn;
  friend class running_operation;
  // Words of the outgoing line for a rank: 4 for messages, 2 for acknowledgments.
  static constexpr std::size_t outgoing_words = 6;
  struct request {
    verbena::detail::operation_waiter waiter;
    verbena::detail::operation_slot* slot = nullptr;
    std::uint32_t rank = 0;
    bool reads_program = false;  // reads memory of the program
    bool is_read = false;        // reads the line `entered`
    bool is_acknowledgment = false;
    std::size_t reads = 0;  // the offset of the board word that it reads; 0: other memory
  };
  /// A write or read of the board of a rank.
  struct access_to_board {
    verbena::detail::operation_kind kind;
    std::uint32_t rank;
    registered_bytes own;
    std::size_t peer_offset;
  };
  struct pair_state {
    std::uint32_t sent = 0;
    std::uint32_t acknowledged_by_peer = 0;  // of sent
    std::uint32_t received = 0;
    std::uint32_t acknowledged = 0;  // of received
    /// The index in posted_ of the last write of each word of the outgoing line.
    std::array<std::uint32_t, outgoing_words> readers = {};
  };

  rank_board(memory_region memory, std::uint32_t rank, std::uint32_t size);

  [[nodiscard]] error destroyed(operation_name name) const;
  /// Sets a failure without allocating, after an allocation has failed.
  void fail_without_memory(collective* in) noexcept;
  [[nodiscard]] result<void> check(operation_name name, std::span<const std::uint32_t> ranks) const;
  [[nodiscard]] std::uint64_t publish(std::span<const std::uint32_t> ranks, std::uint32_t set);
  [[nodiscard]] bool has_entered(const collective& in, std::uint32_t rank) const;

  [[nodiscard]] result<void> run_to_end(collective& in);
  [[nodiscard]] result<bool> advance(collective& in);
  [[nodiscard]] result<bool> take_step(collective& in);
  void send(collective& in);
  void receive(collective& in);
  void acknowledge(collective& in, std::uint32_t from);
  void end_barrier();
  [[nodiscard]] bool has_room(std::uint32_t to);
  [[nodiscard]] bool has_arrived(std::uint32_t from) const;
  [[nodiscard]] result<void> check_arrived(collective& in, std::uint32_t from);
  /// Stores the arguments of an operation, for errors of other ranks.
  void describe(const operation_values& what, std::size_t count, std::uint32_t tag,
                std::uint32_t set);
  /// Fails because a message of `from` belongs to another operation, with the tag `theirs`.
  [[nodiscard]] error fail_mixed_up(collective& in, std::uint32_t from, std::uint32_t theirs);
  /// Reads the descriptions of a rank. Returns false if the rank does not answer within 100 ms.
  [[nodiscard]] bool read_descriptions(collective& in, std::uint32_t from);
  [[nodiscard]] result<bool> write_pending(collective& in);
  /// Returns true if a write in flight reads a word of the outgoing line for a rank.
  [[nodiscard]] bool is_read(std::uint32_t rank, std::size_t place) const;
  /// Returns true if a failed write is an acknowledgment that this operation does not need: the
  /// rank may have left after its last message.
  [[nodiscard]] bool is_dispensable(const collective& in, const request& failed);
  /// Posts a write, whose bytes are at `from`. Returns false if the queue is full or the channel is
  /// not connected yet.
  [[nodiscard]] result<bool> write(collective& in, const board_write& what,
                                   const registered_bytes& from);
  [[nodiscard]] result<bool> complete_requests(collective& in);
  [[nodiscard]] result<void> watch(collective& in);
  [[nodiscard]] std::uint32_t awaited_rank(const collective& in) const;
  [[nodiscard]] result<void> look(collective& in);
  [[nodiscard]] result<void> check_failure_of_others(collective& in);
  [[nodiscard]] result<void> check_departed(collective& in);
  [[nodiscard]] result<void> check_states(collective& in);
  /// Returns true if the operation waits for a message or for an acknowledgment of a rank.
  [[nodiscard]] bool waits_for(const collective& in, std::uint32_t rank);
  [[nodiscard]] error fail_late(collective& in, std::uint32_t awaited);
  [[nodiscard]] error fail_broken(collective& in, const request& of);
  [[nodiscard]] error fail_unpolled(collective& in);
  /// `state` is the state of `culprit` if it is the cause.
  [[nodiscard]] error fail(collective& in, std::uint32_t culprit, error why,
                           rank_state state = rank_state::works);
  [[nodiscard]] std::vector<std::uint32_t> find_missing(collective& in);
  [[nodiscard]] bool requests_ended() const;
  void abandon() noexcept;
  /// First waits until no write in flight reads memory of the program. Flushes channels that take
  /// too long.
  void abandon(collective& in);
  /// Writes a failure to the board of a rank. Returns false if the send queue is full.
  [[nodiscard]] bool report_to(collective& in, std::uint32_t rank, std::uint32_t culprit,
                               deadline time_to_connect);
  /// Posts a request for the board of a rank.
  [[nodiscard]] bool post(multi_channel& channels, const access_to_board& what, deadline until);
  /// Returns the read of the line `entered` of a rank.
  [[nodiscard]] access_to_board read_of_entered(std::uint32_t rank) const;

  [[nodiscard]] registered_bytes own(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] std::uint64_t load(std::size_t offset) const {
    // C++20 has no atomic_ref of a const type; load() does not write.
    auto* const at = reinterpret_cast<std::uint64_t*>(memory_.bytes().data() + offset);
    return std::atomic_ref<std::uint64_t>(*at).load(std::memory_order_acquire);
  }
  void store(std::size_t offset, std::uint64_t value) {
    auto* const at = reinterpret_cast<std::uint64_t*>(memory_.bytes().data() + offset);
    std::atomic_ref<std::uint64_t>(*at).store(value, std::memory_order_release);
  }
  void set_members(std::span<const std::uint32_t> members);
  [[nodiscard]] std::uint64_t failure_word(std::uint32_t culprit,
                                           rank_state state = rank_state::works) const;
  /// Writes the outgoing state to the board of a rank. Returns false if the write was not posted.
  [[nodiscard]] bool post_state(multi_channel& channels, std::uint32_t rank);
  /// Writes the outgoing state to the board of each of `ranks`. Waits until `room` for room in full
  /// send queues. The writes are in flight afterwards.
  void post_states(multi_channel& channels, std::span<const std::uint32_t> ranks, deadline room);
  /// Writes that this rank has failed to the connected members that are not in the operation.
  void report_to_others(collective& in);

  memory_region memory_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::uint32_t epoch_ = 0;
  std::size_t member_count_;
  std::vector<bool> is_member_;
  std::vector<remote_region> boards_;
  std::vector<pair_state> pairs_;
  std::map<std::uint32_t, std::uint32_t> entered_;  // number of operations by tag of the ranks
  std::uint32_t subsets_ = 0;                       // number of subsets that have used a word
  std::uint32_t described_ = 0;                     // number of operations in `described`
  std::vector<request> posted_;
  std::size_t in_flight_ = 0;  // of posted_
  /// By rank: the last read if the read was abandoned. The next read has the same destination, so
  /// it must wait until this read has ended.
  std::vector<verbena::detail::operation_waiter> late_reads_;
  bool has_abandoned_ = false;          // requests of the board may be in flight that posted_ lacks
  std::vector<std::uint32_t> sent_to_;  // in this barrier
  std::vector<std::uint32_t> received_from_;  // in this barrier
  std::optional<error> failure_;
  bool awaits_agreement_ = false;         // failure_ is that of stop_for_agreement()
  std::optional<error> earlier_failure_;  // the failure before stop_for_agreement()
  bool is_reporting_ = false;             // fail() is in progress
  std::chrono::nanoseconds first_use_timeout_ = std::chrono::nanoseconds::max();
  board_turn* first_turn_ = nullptr;  // queue of the operations in steps
  collective* running_ = nullptr;     // the operation in progress
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
