/* group.pml — what lib/membership/member.c and group/batch_queue.c do, for Spin 6: who is in a generation, what it starts from, what is applied.

   Three workers train S steps of B micro-batches, then an empty closing reduction. Any worker may at any time propose any set of live workers of which it is the
   lowest: timers, heartbeats and links only decide when, so every graph of links, every false suspicion and every late timer is among the runs. A message,
   once sent, is a fact in the table of proposals: its receiver takes it at any later time or never (loss, delay, reordering, one-way cuts), but a
   message is for one process and dies with its connection. A member may suspend itself at any time (a broken data stream, a refused coverage word, too
   few). Links that carry control and no data add nothing here: whom the machine then hears only decides when who proposes whom, its need of a new
   generation is such a suspension, and a contribution that never comes is a message never taken. A crash loses everything; a restart has another
   incarnation, larger or smaller, and starts from the newest published state. A leaver is a process that crashes: its goodbye only makes timers end.

   Held at every moment (Spin's assertions):
     once    every sum that is applied has each micro-batch exactly once, computed from the state that it is applied to: so one state per step
     ids     no two proposals have one id
     front   nobody takes a Begin whose base lies behind its own state, and no fetch goes back: no applied step is lost while one that has it lives
     between nobody applies between its promise and a Begin
     committed  what a member publishes every live member of that generation has
   and compiled with -DCALM=1: when faults stop for ever, whenever that is, everybody alive finishes with at most CALM_G further proposals, or fewer than
   MINW are alive ("end": liveness as safety, since after that moment all is finite; the timers are ideal there, propose.pml has their rules).
   Environment: G proposals while faults last, FAULTS crashes, MINW, MUT (below). Compiled: B micro-batches, S steps, SLOTS proposals in all,
   CALM_G. Not modelled: times, Busy and back-off (propose.pml), files (latest.pml), bad micro-batches, chunks of a ring, states that differ at one
   step (no arithmetic is wrong here), more than three workers. */
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
#define NO_SUSPEND (mut == 3)      /* works on in the old generation after a promise */
#define BEGIN_UNPROMISED (mut == 4)/* takes a Begin that it has not promised, or promised no longer */
#define PROMISE_ANY (mut == 5)     /* promises a smaller id too */
#define ID_IS_NUMBER (mut == 6)    /* ids are compared by number alone, and a Propose is answered again */
#define APPLY_EARLY (mut == 7)     /* applies without waiting for everybody's contribution */
#define PUBLISH_EARLY (mut == 8)   /* publishes what it has just applied */
#define BEGIN_AGAIN (mut == 9)         /* a Begin that comes again is taken again */
#define bit(i) (1 << (i))
#define has(set, i) (((set) >> (i)) & 1)
#define size(set) (has(set, 0) + has(set, 1) + has(set, 2))
#define rank(set, i) ((((i) > 0) && has(set, 0)) + (((i) > 1) && has(set, 1)))

/* the workers: lost in a crash, but for inc and born */
bool up[N], done[N];
byte inc[N], born[N];  /* incarnation; proposals that were made before this process */
byte step[N];          /* its state */
byte held[N], vec[N];  /* micro-batches in its contribution; the contribution: two bits of count for each micro-batch, and from bit 6 the step it was computed from */
byte prom[N], act[N];  /* proposal promised, generation acted in (0: none) */
byte seen[N];          /* highest number */
bool sus[N];           /* it has suspended itself since it began act */

/* proposals 1..made, and all that is said about them */
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
#define heard max2(max2(up[0] * seen[0], up[1] * seen[1]), up[2] * seen[2])

/* a proposal that nobody can use any more is wiped: fewer states, the same runs */
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

/* member.c promise(): it belongs to no generation from here */
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
/* a contribution that is complete goes out; to have sent it and not be heard is the same as not to have sent it */
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
/* member_choose_base() and begin() */
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
  a = 0; b = 0;                                                   /* the j-th micro-batch that nobody keeps: rank j mod n */
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
#define everyone(i) (APPLY_EARLY -> has(sent[at(act[i], step[i])], i) : sent[at(act[i], step[i])] == set[act[i]])
#define mayfetch(i, f) (f != i && works(i) && up[f] && act[f] == act[i] && !sus[f] && step[i] < base[act[i]] && step[f] >= base[act[i]])
/* ideal timers, once faults have stopped: the lowest proposes just when its promise cannot come to a generation of all that live */
#define lowest(i) (up[i] && (live & (bit(i) - 1)) == 0)
#define fine(k, j) (!has(set[k], j) || (up[j] && born[j] < (k) && (prom[j] == (k) && !(act[j] == (k) && sus[j]) || (!has(got[k], j) && newer(k, prom[j])))))
#define hope(k) ((k) != 0 && up[from[k]] && born[from[k]] < (k) && prom[from[k]] == (k) && fine(k, 0) && fine(k, 1) && fine(k, 2))
#define stuck(i) (lowest(i) && (!hope(prom[i]) || set[prom[i]] != live))

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
       if :: number = seen[i] + 1 :: seen[i] < heard -> number = heard + 1 fi;
       if :: (members & ~live) == 0 && size(members) >= minw -> d_step { do_propose(i, members, number) } :: else fi;
       members = 0; number = 0 }
  :: atomic { calm && stuck(i) && size(live) >= minw && !(done[0] || done[1] || done[2]) -> assert(made < SLOTS); members = live; number = heard + 1;
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
  :: atomic { settled(i) && step[i] >= base[act[i]] && everyone(i) ->
       if :: step[i] > latest -> latest = step[i] :: skip fi;         /* the base is committed now: published, or not yet */
       d_step { do_apply(i) } }
  od
}

inline gone(i) { up[i] = 0; step[i] = 0; clear(i); prom[i] = 0; act[i] = 0; sus[i] = 0; seen[i] = 0; born[i] = 0; wipe() }

proctype Faults() {
  byte i;
end:
  do
  :: atomic { !calm && faults > 0 ->
       if :: i = 0 :: i = 1 :: i = 2 fi;
       if
       :: up[i] && !done[i] -> d_step {
            faults--; gone(i) }
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
  timeout;                                                            /* nothing can happen any more */
  assert(done[0] || done[1] || done[2] || !live || size(live) < minw)                      /* end: the leader says Done to all as soon as the closing reduction passed */
}

init {
  atomic {
    c_code { mut = setting("MUT"); limit = setting("G"); minw = setting("MINW"); now.faults = setting("FAULTS"); };
    up[0] = 1; up[1] = 1; up[2] = 1; inc[0] = 1; inc[1] = 1; inc[2] = 1;
    run Worker(0); run Worker(1); run Worker(2); run Faults()
  }
}
