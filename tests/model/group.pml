/* group.pml — Spin 6 model of lib/membership/member.c and group/batch_queue.c: the members of a
   generation, the state that it starts from, and the sums that are applied.

   Three workers train S steps of B micro-batches, then an empty closing reduction. Any worker may at
   any time propose any set of live workers of which it is the lowest: timers, heartbeats and links
   only decide when, so the runs include every graph of links, every false suspicion and every late
   timer. A sent message is an entry in the table of proposals: its receiver handles it at any later
   time or never (loss, delay, reordering, one-way partitions), but a message is for one process and
   is lost with its connection. A member may suspend itself at any time (a broken data stream, a
   rejected coverage word, too few members). Links that carry control and no data need no extra rules:
   reachability only decides when a worker proposes and to which peers, the need of a new generation is
   such a suspension, and a contribution that never arrives is a message that is never handled. A crash
   loses the whole state of a worker; a restarted worker has another incarnation, larger or smaller, and
   starts from the newest published state. A leaving worker is a crash: its goodbye only ends timers.

   Invariants (assertions):
     once    every applied sum has each micro-batch exactly once, computed from the state that the
             sum is applied to: so there is one state per step
     ids     no two proposals have the same id
     front   no worker accepts a Begin whose base is older than its own state, and no fetch goes back:
             no applied step is lost while a worker that has applied it lives
     between no worker applies a sum between its promise and a Begin
     committed  a state that a member publishes is held by every live member of that generation
   and with -DCALM=1: when faults have stopped for good, at any moment, every live worker finishes with
   at most SLOTS proposals in all, or fewer than MINW live ("end": liveness as safety, since all runs
   are finite after that moment; the timers are ideal there, propose.pml has their rules).
   Environment: G proposals while faults last, FAULTS crashes, MINW, MUT (below). Compiled: B
   micro-batches, S steps, SLOTS proposals in all, CALM. Not modelled: times, Busy and back-off
   (propose.pml), files (latest.pml), bad micro-batches, chunks of a ring, states that differ at one
   step (arithmetic is always right here), more than three workers. */
#define N 3
#ifndef B
#define B 2
#endif
#ifndef S
#define S 1
#endif
#ifndef SLOTS
#define SLOTS 3
#endif
#ifndef CALM
#define CALM 0
#endif
c_code {
\#include <stdlib.h>
static int setting(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
}
hidden byte mut, limit, minw;
#define KEEP_OVERLAP (mut == 1)    /* held sets that overlap are kept */
#define KEEP_OTHER_BASE (mut == 2) /* micro-batches of another state are kept */
#define NO_SUSPEND (mut == 3)      /* continues in the old generation after a promise */
#define BEGIN_UNPROMISED (mut == 4)/* accepts a Begin without its promise, or after another one */
#define PROMISE_ANY (mut == 5)     /* promises a smaller id */
#define ID_IS_NUMBER (mut == 6)    /* ids are compared by number alone, and a Propose is answered again */
#define APPLY_EARLY (mut == 7)     /* applies without waiting for all contributions */
#define PUBLISH_EARLY (mut == 8)   /* publishes a state before it is committed */
#define BEGIN_AGAIN (mut == 9)         /* a repeated Begin is accepted again */
#define bit(i) (1 << (i))
#define has(set, i) (((set) >> (i)) & 1)
#define size(set) (has(set, 0) + has(set, 1) + has(set, 2))
#define rank(set, i) ((((i) > 0) && has(set, 0)) + (((i) > 1) && has(set, 1)))

/* the workers; a crash clears all but inc and born */
bool up[N], done[N];
byte inc[N], born[N];  /* incarnation; proposals that were made before this process */
byte step[N];          /* its state */
byte held[N], vec[N];  /* micro-batches in its contribution; the contribution: a count of two bits for
                          each micro-batch, and from bit 6 the step it was computed from */
byte prom[N], act[N];  /* promised proposal, active generation (0: none) */
byte seen[N];          /* highest number */
bool sus[N];           /* has suspended itself in act */

/* proposals 1..made, and the messages about them */
byte made;
byte num[SLOTS + 1], from[SLOTS + 1], finc[SLOTS + 1], set[SLOTS + 1], got[SLOTS + 1];
byte rstep[(SLOTS + 1) * N], rheld[(SLOTS + 1) * N];                     /* what the promises report */
bool begun[SLOTS + 1];
byte base[SLOTS + 1], keep[SLOTS + 1], goal[(SLOTS + 1) * N];            /* the Begin */
byte sent[(SLOTS + 1) * (S + 1)], sum[(SLOTS + 1) * (S + 1) * N];        /* contributions */
byte latest, faults;
bool calm;
hidden byte a, b, c, v, u; hidden byte n0, n1, n2, bad;      /* scratch inside a d_step */

#define id(k) (ID_IS_NUMBER -> num[k] * 16 : num[k] * 16 + from[k] * 4 + finc[k])
#define newer(k, p) (id(k) + ID_IS_NUMBER > id(p))
#define live (up[0] + 2 * up[1] + 4 * up[2])
#define share(n, r) ((n) == 1 -> bit(B) - 1 : ((n) == 2 -> ((r) == 0 -> 5 & (bit(B) - 1) : 2) : bit(r) & (bit(B) - 1)))
#define todo(k, i, s) ((s) == S -> 0 : ((s) == base[k] -> goal[(k) * N + (i)] : share(size(set[k]), rank(set[k], i))))
#define at(k, s) ((k) * (S + 1) + (s))
#define max2(x, y) ((x) > (y) -> (x) : (y))
#define highest_seen max2(max2(up[0] * seen[0], up[1] * seen[1]), up[2] * seen[2])

/* Clears proposals that no process can use any more: fewer states, the same runs. */
inline wipe() {
  a = 1;
  do
  :: a <= made ->
     b = 0; v = 0;
     do
     :: b < N ->
        if
        :: up[b] && (act[b] == a || prom[b] == a) -> v = 1
        :: up[b] && has(set[a], b) && born[b] < a && !has(got[a], b) && newer(a, prom[b]) -> v = 1
        :: (BEGIN_UNPROMISED || PROMISE_ANY) && up[b] && has(set[a], b) && born[b] < a -> v = 1
        :: else
        fi;
        b++
     :: else -> break
     od;
     if
     :: !v && set[a] ->
        num[a] = 0; from[a] = 0; finc[a] = 0; set[a] = 0; got[a] = 0; begun[a] = 0; base[a] = 0; keep[a] = 0; b = 0;
        do :: b < N -> rstep[a * N + b] = 0; rheld[a * N + b] = 0; goal[a * N + b] = 0; b++ :: else -> break od;
        b = 0;
        do :: b <= S -> sent[at(a, b)] = 0; sum[at(a, b) * N] = 0; sum[at(a, b) * N + 1] = 0; sum[at(a, b) * N + 2] = 0; b++ :: else -> break od
     :: else
     fi;
     a++
  :: else -> break
  od;
  a = 0; b = 0; v = 0
}

/* promise_id(): the worker belongs to no generation until the next Begin */
inline do_promise(i, k) {
  got[k] = got[k] | bit(i); rstep[(k) * N + i] = step[i]; rheld[(k) * N + i] = held[i];
  prom[i] = k; seen[i] = max2(seen[i], num[k]);
  if :: !NO_SUSPEND -> act[i] = 0; sus[i] = 0 :: else fi;
  wipe()
}
inline clear(i) { held[i] = 0; vec[i] = 0 }
inline do_propose(i, members, number) {
  made++; num[made] = number; from[made] = i; finc[made] = inc[i]; set[made] = members; seen[i] = number;
  a = 1;
  do :: a < made -> assert(!set[a] || num[a] * 16 + from[a] * 4 + finc[a] != number * 16 + i * 4 + inc[i]); a++ :: else -> break od;   /* ids */
  a = 0;
  do_promise(i, made)
}
/* sends a complete contribution; one that is lost is a message never handled */
inline do_send(i) {
  if
  :: act[i] && !sus[i] && step[i] >= base[act[i]] && !has(sent[at(act[i], step[i])], i) && (todo(act[i], i, step[i]) & ~held[i]) == 0 ->
     sent[at(act[i], step[i])] = sent[at(act[i], step[i])] | bit(i);
     sum[at(act[i], step[i]) * N + i] = vec[i]
  :: else
  fi
}
inline do_take(i, k) {
  assert(step[i] <= base[k]);                                                                                     /* front */
  act[i] = k; sus[i] = 0;
  if
  :: step[i] == base[k] && !has(keep[k], i) -> clear(i)
  :: else
  fi;
  do_send(i); wipe()
}
#define samebase(k, j) (KEEP_OTHER_BASE || rstep[(k) * N + j] == c)
#define disjoint(k, j) (KEEP_OVERLAP || (rheld[(k) * N + j] & u) == 0)
/* member_choose_base() and propose_begin() */
inline do_begin(i, k) {
  a = 0; c = 0; u = 0;
  do :: a < N -> if :: has(set[k], a) -> c = max2(c, rstep[(k) * N + a]) :: else fi; a++ :: else -> break od;
  base[k] = c; a = 0;
  do
  :: a < N ->
     if
     :: has(set[k], a) && c < S && rheld[(k) * N + a] && samebase(k, a) && disjoint(k, a) ->
        keep[k] = keep[k] | bit(a); goal[(k) * N + a] = rheld[(k) * N + a]; u = u | rheld[(k) * N + a]
     :: else
     fi;
     a++
  :: else -> break
  od;
  a = 0; b = 0;                                                   /* the j-th micro-batch in no kept set: rank j mod n */
  do
  :: a < B && c < S ->
     if
     :: !has(u, a) ->
        v = 0;
        do :: v < N -> if :: has(set[k], v) && rank(set[k], v) == b % size(set[k]) -> goal[(k) * N + v] = goal[(k) * N + v] | bit(a) :: else fi; v++ :: else -> break od;
        b++
     :: else
     fi;
     a++
  :: else -> break
  od;
  a = 0; b = 0; c = 0; v = 0; u = 0; begun[k] = 1;
  do_take(i, k)
}
inline do_fetch(i, f) {
  assert(step[i] < step[f]);                                                                                      /* front */
  step[i] = step[f];
  if :: has(keep[act[i]], i) && KEEP_OTHER_BASE :: else -> clear(i) fi;
  do_send(i)
}
inline do_compute(i) {
  a = todo(act[i], i, step[i]) & ~held[i]; b = 0;
  do :: !has(a, b) -> b++ :: else -> break od;
  if :: held[i] == 0 -> vec[i] = step[i] << 6 :: else fi;
  held[i] = held[i] | bit(b); vec[i] = vec[i] + (1 << (2 * b));
  a = 0; b = 0;
  do_send(i)
}
inline do_apply(i) {
  assert(act[i] == prom[i] || BEGIN_UNPROMISED || ID_IS_NUMBER || PROMISE_ANY);                                   /* between */
  a = at(act[i], step[i]); b = 0; n0 = 0; n1 = 0; n2 = 0; bad = 0;
  do
  :: b < N ->
     if
     :: has(set[act[i]], b) ->
        c = sum[a * N + b];
        n0 = n0 + (c & 3); n1 = n1 + ((c >> 2) & 3); n2 = n2 + ((c >> 4) & 3);
        if :: (c & 63) && (c >> 6) != step[i] -> bad = 1 :: else fi
     :: else
     fi;
     b++
  :: else -> break
  od;
  if
  :: step[i] == S -> assert(n0 + n1 + n2 == 0)
  :: else -> assert(!bad && n0 == 1 && n1 == 1 && (B < 3 || n2 == 1))                                             /* once */
  fi;
  b = 0;
  do :: b < N -> if :: has(set[act[i]], b) && up[b] && born[b] < act[i] -> assert(step[b] >= step[i] + PUBLISH_EARLY) :: else fi; b++ :: else -> break od;   /* committed */
  if :: step[i] == S -> done[i] = 1 :: else -> step[i] = step[i] + 1; clear(i) fi;
  a = 0; b = 0; c = 0; n0 = 0; n1 = 0; n2 = 0; bad = 0;
  do_send(i)
}

#define maypromise(i, k) (up[i] && (k) <= made && has(set[k], i) && !begun[k] && born[i] < (k) && \
  (PROMISE_ANY -> prom[i] != (k) : !has(got[k], i) && newer(k, prom[i])))
#define maybegin(i, k) (up[i] && (k) <= made && set[k] && from[k] == i && born[i] < (k) && prom[i] == (k) && got[k] == set[k] && !begun[k])
#define promisedit(i, k) (prom[i] != 0 && (BEGIN_UNPROMISED || id(prom[i]) == id(k)))
#define maytake(i, k) (up[i] && (k) <= made && begun[k] && has(set[k], i) && born[i] < (k) && (act[i] != (k) || (sus[i] && BEGIN_AGAIN)) && promisedit(i, k))
#define works(i) (up[i] && act[i] != 0 && !sus[i] && !done[i])
#define settled(i) (works(i) && (act[i] == prom[i] || NO_SUSPEND || BEGIN_UNPROMISED || ID_IS_NUMBER || PROMISE_ANY))
#define all_sent(i) (APPLY_EARLY -> has(sent[at(act[i], step[i])], i) : sent[at(act[i], step[i])] == set[act[i]])
#define mayfetch(i, f) (f != i && works(i) && up[f] && act[f] == act[i] && !sus[f] && step[i] < base[act[i]] && step[f] >= base[act[i]])
/* ideal timers, once faults have stopped: the lowest worker proposes exactly when its promise cannot
   lead to a generation of all live workers */
#define lowest(i) (up[i] && (live & (bit(i) - 1)) == 0)
#define can_join(k, j) (!has(set[k], j) || (up[j] && born[j] < (k) && (prom[j] == (k) && !(act[j] == (k) && sus[j]) || (!has(got[k], j) && newer(k, prom[j])))))
#define can_begin(k) ((k) != 0 && up[from[k]] && born[from[k]] < (k) && prom[from[k]] == (k) && can_join(k, 0) && can_join(k, 1) && can_join(k, 2))
#define stuck(i) (lowest(i) && (!can_begin(prom[i]) || set[prom[i]] != live))

#define ABOUT(k) \
  :: atomic { maypromise(i, k) -> d_step { do_promise(i, k) } } \
  :: atomic { maybegin(i, k) -> d_step { do_begin(i, k) } } \
  :: atomic { maytake(i, k) -> d_step { do_take(i, k) } }

proctype Worker(byte i) {
  byte members, number;
end:
  do
  :: atomic { !calm && up[i] && !done[i] && made < limit ->
       if :: members = bit(i) :: i < 2 -> members = bit(i) | bit(i + 1) :: i < 1 -> members = bit(i) | bit(i + 2) :: i < 1 -> members = 7 fi;
       if :: number = seen[i] + 1 :: seen[i] < highest_seen -> number = highest_seen + 1 fi;
       if :: (members & ~live) == 0 && size(members) >= minw -> d_step { do_propose(i, members, number) } :: else fi;
       members = 0; number = 0 }
  :: atomic { calm && stuck(i) && size(live) >= minw && !(done[0] || done[1] || done[2]) -> assert(made < SLOTS); members = live; number = highest_seen + 1;
       d_step { do_propose(i, members, number) } members = 0; number = 0 }
  :: atomic { !calm && works(i) && act[i] == prom[i] -> sus[i] = 1 }
  ABOUT(1) ABOUT(2)
#if SLOTS > 2
  ABOUT(3)
#endif
#if SLOTS > 3
  ABOUT(4)
#endif
#if SLOTS > 4
  ABOUT(5)
#endif
#if SLOTS > 5
  ABOUT(6)
#endif
#if SLOTS > 6
  ABOUT(7)
#endif
  :: atomic { mayfetch(i, 0) -> d_step { do_fetch(i, 0) } }
  :: atomic { mayfetch(i, 1) -> d_step { do_fetch(i, 1) } }
  :: atomic { mayfetch(i, 2) -> d_step { do_fetch(i, 2) } }
  :: atomic { settled(i) && step[i] >= base[act[i]] && (todo(act[i], i, step[i]) & ~held[i]) != 0 -> d_step { do_compute(i) } }
  :: atomic { settled(i) && step[i] >= base[act[i]] && all_sent(i) ->
       if :: step[i] > latest -> latest = step[i] :: skip fi;         /* the base is committed now, and may be published */
       d_step { do_apply(i) } }
  od
}

inline crash_worker(i) { up[i] = 0; step[i] = 0; clear(i); prom[i] = 0; act[i] = 0; sus[i] = 0; seen[i] = 0; born[i] = 0; wipe() }

proctype Faults() {
  byte i;
end:
  do
  :: atomic { !calm && faults > 0 ->
       if :: i = 0 :: i = 1 :: i = 2 fi;
       if
       :: up[i] && !done[i] -> d_step {
            faults--; crash_worker(i) }
       :: else
       fi;
       i = 0 }
  :: atomic { !calm && live != 7 ->
       if :: i = 0 :: i = 1 :: i = 2 fi;
       if
       :: !up[i] -> if :: inc[i] == 1 -> inc[i] = 0 :: inc[i] == 1 -> inc[i] = 2 :: inc[i] != 1 -> inc[i] = 3 fi;
            d_step { up[i] = 1; born[i] = made; step[i] = latest }
       :: else
       fi;
       i = 0 }
#if CALM
  :: atomic { !calm -> calm = 1 }
  :: calm -> break
#endif
  od;
  timeout;                                                            /* no step is enabled */
  assert(done[0] || done[1] || done[2] || !live || size(live) < minw)                      /* end: after the closing reduction the leader sends Done to all */
}

init {
  atomic {
    c_code { mut = setting("MUT"); limit = setting("G"); minw = setting("MINW"); now.faults = setting("FAULTS"); };
    up[0] = 1; up[1] = 1; up[2] = 1; inc[0] = 1; inc[1] = 1; inc[2] = 1;
    run Worker(0); run Worker(1); run Worker(2); run Faults()
  }
}
