// SPDX-License-Identifier: MIT
// Messages between the ranks of a group, by writes into memory of the receiver: the board. Barriers
// and collective operations consist of these messages. The board of a rank has these parts:
//
//   failure    a rank whose operation has failed writes the rank that it waited for, and its epoch
//   entered    the number of operations that this rank has entered, for all ranks, and for the last
//              7 subsets with a tag of the ranks; others read it after a failure
//   arrivals   a line for each rank, which only this rank writes: a word for each of its last 4
//              messages, and the number of messages that it has received
//   outgoing   a line for each rank: the words to write to its board, of messages and of
//              acknowledgments; and one for failures. A word is stored again only after the write
//              that reads it has completed
//   seen       a line for each rank: a copy of its `entered`
//   payload    4 slots for each rank: the bytes of its last 4 messages
//
// The word of a message consists of the number of the message between its two ranks, and of a tag
// that depends on the operation. It is written after the bytes. A sender waits while 4 messages are
// unacknowledged; the receiver acknowledges every second message.
//
// An epoch begins when the members of the group change (renewal.hpp). Tags, numbers of messages and
// failures depend on it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "verbena/base/function_ref.hpp"
#include "verbena/channel/detail/channel_core.hpp"
#include "verbena/net/multi_channel.hpp"
#include "verbena/net/reduction.hpp"
#include "verbena/net/store_client.hpp"
#include "verbena/verbs/memory_region.hpp"

namespace verbena::inline VERBENA_ABI::net::detail {

/// Names an operation in errors.
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

/// Bytes for a rank. No bytes: no message.
struct outgoing_part {
  std::uint32_t to;
  registered_bytes bytes;
};
/// Bytes of a rank, which are copied to `bytes`, or combined with them. No bytes: no message.
struct incoming_part {
  std::uint32_t from;
  registered_bytes bytes;
  const combination* with = nullptr;
};

class rank_board;

/// The ranks of an operation, and its deadline.
struct participants {
  rank_board& board;
  multi_channel& channels;
  store_client& client;  // is informed of the ranks that have left
  std::span<const std::uint32_t> ranks;
  deadline until;
};

/// An operation in progress. Threads: that of its board.
struct collective {
  multi_channel& channels;
  store_client& client;
  operation_name name;
  std::span<const std::uint32_t> ranks;
  deadline until;
  deadline give_up;
  std::uint32_t tag;
  std::uint64_t entered;  // its word in `entered`
  std::size_t index;      // of this rank in `ranks`
  /// Bytes of an element, which is not divided between messages: the same on all ranks.
  std::size_t element_bytes = 1;

  /// Returns the rank at a place, counted cyclically.
  [[nodiscard]] std::uint32_t at(std::size_t place) const { return ranks[place % ranks.size()]; }
  [[nodiscard]] std::size_t count() const noexcept { return ranks.size(); }
};

/// Threads: one thread at a time, with the channels.
class rank_board {
 public:
  /// Allocates the board of a rank. Errors: those of protection_domain::allocate().
  [[nodiscard]] static result<rank_board> create(const protection_domain& domain,
                                                 std::uint32_t rank, std::uint32_t size);
  /// Returns the memory for the other ranks.
  [[nodiscard]] remote_region remote() const { return memory_.remote(); }
  /// Sets the members, and the boards of all ranks. Errors: `protocol` names a member whose board
  /// is too small.
  [[nodiscard]] result<void> connect(std::vector<remote_region> boards,
                                     std::span<const std::uint32_t> members);

  /// Reads the line `entered` of the boards of other ranks. Then all earlier requests on the
  /// channels to the ranks that answered have completed. Returns the ranks without an answer.
  [[nodiscard]] std::vector<std::uint32_t> probe(multi_channel& channels,
                                                 std::span<const std::uint32_t> ranks,
                                                 deadline until);
  /// Lets all operations fail with `why` until the next epoch.
  void stop(error why) { failure_ = std::move(why); }
  /// Clears the board for an epoch. Precondition: no rank writes to the board.
  void clear(std::uint32_t epoch, std::span<const std::uint32_t> members);
  /// Lets operations begin. Other ranks may write to the board.
  void start(std::span<const std::uint32_t> members);

  /// Begins an operation. `what` are numbers that must be equal on all ranks. Errors: that of
  /// an earlier operation; `invalid_argument` if the ranks are not in ascending order, are not
  /// members, or lack this one.
  [[nodiscard]] result<collective> enter(const participants& of, operation_name name,
                                         std::initializer_list<std::uint64_t> what);
  /// Sends messages without bytes, and waits for those of others.
  [[nodiscard]] result<void> step(collective& in, std::span<const std::uint32_t> to,
                                  std::span<const std::uint32_t> from);
  /// Sends bytes, and receives others at the same time. If both have the same memory, each byte is
  /// combined after it has been sent.
  [[nodiscard]] result<void> transfer(collective& in, const outgoing_part* out,
                                      const incoming_part* into);
  /// Ends a barrier: the other ranks have received all messages before it.
  void end_barrier();

 private:
  // Of the outgoing line of a rank: 4 for messages, 2 for acknowledgments.
  static constexpr std::size_t outgoing_words = 6;
  struct request {
    verbena::detail::operation_waiter waiter;
    verbena::detail::operation_slot* slot = nullptr;
    std::uint32_t rank = 0;
    bool reads_program = false;  // memory of the program
    std::size_t reads = 0;       // the offset of the word of the board; 0: other memory
  };
  /// A write or read of the board of a rank.
  struct access_to_board {
    verbena::detail::operation_kind kind;
    std::uint32_t rank;
    registered_bytes own;
    std::size_t peer_offset;
  };
  /// Why an operation waits.
  struct awaited_ranks {
    std::span<const std::uint32_t> messages = {};  ///< of these ranks
    std::span<const std::uint32_t> room = {};      ///< for messages to this rank
    std::span<const std::uint32_t> requests = {};  ///< to this rank: how they end is known
    [[nodiscard]] std::uint32_t first() const {
      return messages.empty() ? (room.empty() ? requests : room).front() : messages.front();
    }
  };
  struct pair_state {
    std::uint32_t sent = 0;
    std::uint32_t known = 0;  // of sent: received by the other rank
    std::uint32_t received = 0;
    std::uint32_t acknowledged = 0;  // of received
    /// The place in posted_ of the last write of each word of the outgoing line.
    std::array<std::uint32_t, outgoing_words> readers = {};
  };

  rank_board(memory_region memory, std::uint32_t rank, std::uint32_t size);

  [[nodiscard]] result<void> check(operation_name name, std::span<const std::uint32_t> ranks) const;
  [[nodiscard]] std::uint64_t publish(std::span<const std::uint32_t> ranks, std::uint32_t set);
  [[nodiscard]] bool has_entered(const collective& in, std::uint32_t rank) const;

  [[nodiscard]] bool has_room(std::uint32_t to);
  [[nodiscard]] bool has_arrived(std::uint32_t from) const;
  [[nodiscard]] result<void> send(collective& in, std::uint32_t to, const registered_bytes* bytes);
  [[nodiscard]] result<void> check_arrived(collective& in, std::uint32_t from);
  [[nodiscard]] result<void> acknowledge(collective& in, std::uint32_t from);
  /// Stores a word of the outgoing line of a rank and writes it to the board of that rank. Waits
  /// until the earlier write of this word has completed.
  [[nodiscard]] result<void> write_word(collective& in, std::uint32_t to, std::size_t place,
                                        std::uint64_t value, std::size_t peer_offset);
  [[nodiscard]] result<void> wait_for_requests(collective& in);
  [[nodiscard]] result<void> look(collective& in);
  [[nodiscard]] result<void> check_failure_of_others(collective& in);
  /// Fails if an awaited rank has left without its message.
  template <class Ended>
  [[nodiscard]] result<void> check_departed(collective& in, const awaited_ranks& awaited,
                                            Ended&& ended);
  template <class Ended>
  [[nodiscard]] result<void> wait_until(collective& in, const awaited_ranks& awaited,
                                        Ended&& ended);
  [[nodiscard]] error fail_late(collective& in, std::uint32_t awaited);
  [[nodiscard]] error fail_broken(collective& in, const request& of);
  [[nodiscard]] error fail_unpolled(collective& in);
  [[nodiscard]] error fail(collective& in, std::uint32_t culprit, error why);
  [[nodiscard]] std::vector<std::uint32_t> find_missing(collective& in);
  [[nodiscard]] bool requests_ended() const;
  void release_memory(collective& in);
  void abandon() noexcept;
  /// Reports a failure to a rank. Returns false if its queue is full.
  [[nodiscard]] bool report_to(collective& in, std::uint32_t rank, std::uint32_t culprit,
                               deadline time_to_connect);
  /// Posts a request for the board of a rank; waits for room in the queue.
  [[nodiscard]] result<void> write(collective& in, std::uint32_t rank, const registered_bytes& from,
                                   std::size_t peer_offset);
  [[nodiscard]] bool post(multi_channel& channels, const access_to_board& what, deadline until);
  /// Returns whether a request was refused because a channel was not connected in its time.
  [[nodiscard]] static bool is_late(const request& refused) noexcept;
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
  [[nodiscard]] std::uint64_t failure_word(std::uint32_t culprit) const;

  memory_region memory_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::uint32_t epoch_ = 0;
  std::size_t member_count_;
  std::vector<bool> is_member_;
  std::vector<remote_region> boards_;
  std::vector<pair_state> pairs_;
  std::map<std::uint32_t, std::uint32_t> entered_;  // by tag of the ranks: number of operations
  std::uint32_t subsets_ = 0;                       // words of subsets in use, or replaced
  std::vector<request> posted_;
  std::size_t in_flight_ = 0;                 // of posted_
  std::vector<std::uint32_t> sent_to_;        // in this barrier
  std::vector<std::uint32_t> received_from_;  // in this barrier
  std::optional<error> failure_;
};

}  // namespace verbena::inline VERBENA_ABI::net::detail
