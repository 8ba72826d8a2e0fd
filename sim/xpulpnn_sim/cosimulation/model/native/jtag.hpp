// Server of OpenOCD's protocol remote_bitbang: a debugger's end of a test access port.
#pragma once
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "schema.hpp"

namespace harness {

class RemoteBitbang {
  public:
    // `listener` is a socket that listens, the caller's.
    explicit RemoteBitbang(int listener) : listener_(listener) {}
    RemoteBitbang(const RemoteBitbang&) = delete;
    ~RemoteBitbang() { close_client(); }

    // Whether the next command is there and needs no clock cycle of its own: only in Run-Test/Idle accesses are made.
    bool prompt() const { return next_ != filled_ && state_ != IDLE; }

    // A clock cycle: makes one command of the debugger, and reads of TDO before it. With `quiet` nothing changes until it
    // says something, so that the caller may rest. Returns events.
    uint32_t edge(const JtagOut& seen, JtagIn& driven, bool quiet) {
        uint32_t events = 0;
        if (next_ == filled_) events = receive(quiet);
        while (next_ != filled_ && received_[next_] == 'R') {
            ++next_;
            answers_[answered_++] = seen.tdo ? '1' : '0';
            if (answered_ == answers_.size()) answer();
        }
        if (next_ == filled_) return events;
        const char command = received_[next_++];
        if (command >= '0' && command <= '7') {
            const uint32_t levels = command - '0', rises = levels >> 2 & ~driven.tck;
            if (rises & ~driven.trst) state_ = NEXT[state_][levels >> 1 & 1];
            driven.tck = levels >> 2 & 1;
            driven.tms = levels >> 1 & 1;
            driven.tdi = levels & 1;
        } else if (command >= 'r' && command <= 'u') {
            driven.trst = (command - 'r') >> 1 & 1;
            if (driven.trst) state_ = 0;
        } else if (command == 'Q') {
            events |= leave();
        }
        return events;
    }

  private:
    // States of the port's controller: Test-Logic-Reset, Run-Test/Idle, from 2 and 9 on select, capture, shift, exit1,
    // pause, exit2 and update of data and instruction. The next one for each level of TMS.
    static constexpr uint8_t IDLE = 1, NEXT[16][2] = {{1, 0},   {1, 2},   {3, 9},   {4, 5},   {4, 5},   {6, 8},
                                                      {6, 7},   {4, 8},   {1, 2},   {10, 0},  {11, 12}, {11, 12},
                                                      {13, 15}, {13, 14}, {11, 15}, {1, 2}};
    static constexpr uint32_t OFTEN = 16, SELDOM = 1024;  // cycles between two looks at the socket
    static constexpr uint32_t ACTIVE = 100'000;            // cycles after a command for which that is often
    static constexpr uint32_t PATIENCE = 512;              // cycles after a command until which it may have an effect
    static constexpr int REST_MS = 20;  // an answer is followed sooner by what the debugger says next

    uint32_t receive(bool quiet) {
        if (answered_) answer();
        const bool rests = quiet && idle_ > PATIENCE;
        const uint32_t looks = client_ >= 0 && idle_ < ACTIVE ? OFTEN : SELDOM;
        if (idle_++ % looks && !rests) return 0;
        pollfd waiting = {client_ >= 0 ? client_ : listener_, POLLIN, 0};
        if (poll(&waiting, 1, rests || (quiet && client_ >= 0) ? REST_MS : 0) <= 0) return rests ? DEBUGGER_RESTS : 0;
        if (client_ < 0) {
            client_ = accept(listener_, nullptr, nullptr);
            return client_ < 0 ? 0 : DEBUGGER_CAME;
        }
        const ssize_t count = recv(client_, received_.data(), received_.size(), 0);
        if (count <= 0) return leave();
        next_ = 0;
        filled_ = static_cast<uint32_t>(count);
        idle_ = 0;
        return 0;
    }

    void answer() {
        for (uint32_t sent = 0; sent < answered_;) {
            const ssize_t count = send(client_, answers_.data() + sent, answered_ - sent, MSG_NOSIGNAL);
            if (count <= 0) break;
            sent += static_cast<uint32_t>(count);
        }
        answered_ = 0;
    }

    uint32_t leave() {
        close_client();
        next_ = filled_ = answered_ = 0;
        return DEBUGGER_LEFT;
    }

    void close_client() {
        if (client_ >= 0) close(client_);
        client_ = -1;
    }

    int listener_, client_ = -1;
    std::array<char, 1 << 16> received_;
    std::array<char, 1 << 12> answers_;
    uint32_t next_ = 0, filled_ = 0, answered_ = 0;
    uint64_t idle_ = 0;
    uint8_t state_ = 0;
};

}  // namespace harness
