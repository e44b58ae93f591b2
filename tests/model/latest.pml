/* latest.pml — Spin 6 model of lib/record/checkpoint_store.c and lib/store/store_file.c:
   checkpoints, LATEST, crashes, power cuts.

   W workers train S steps independently, like the sides of a partition, and share one store. The
   result of a step depends on the step alone, so a state is its number. At any moment a worker may
   publish its state: read LATEST; create the object (link(2) of a file that is on disk already), sync
   the directory, read the object back; swap LATEST under its lock (rename, sync); prune. After the
   last step it publishes with `done` (LATEST = S + 1). Any worker may be killed between any two of
   these operations, and restarts from the store. A power cut kills all workers; each name that
   changed since the last sync of the directory is then on disk in its old or its new form,
   independently: renames are reordered.

   Invariants (assertions):
     monotone  LATEST only moves to a larger state
     acked     a power cut loses no LATEST whose sync has finished, and no start resumes from less
     whole     a loaded object is whole; LATEST names an existing object
   and under weak fairness, after the last fault (ltl end): every worker ends, and LATEST is done, also
   on disk.
   Not modelled: content of files (tests/unit/test_record_*), the objects of one step before and after
   its evaluation, errors of a store, file systems without hard links. Environment: FAULTS, CUTS, MUT;
   compiled: W, S, KEEP (objects that prune keeps; 3 in the code). */
#ifndef W
#define W 2
#endif
#ifndef S
#define S 2
#endif
#ifndef KEEP
#define KEEP 1
#endif
#define bit(i) (1 << (i))
#define has(set, i) (((set) >> (i)) & 1)
#define top(set) (has(set, 3) -> 3 : (has(set, 2) -> 2 : has(set, 1)))
#define object(l) ((l) > S -> S : (l))
c_code {
\#include <stdlib.h>
static int setting(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
}
hidden byte mut;
#define NO_SWAP (mut == 1)       /* LATEST is replaced without comparing */
#define ANY_STEP (mut == 2)      /* LATEST is replaced by an older state */
#define LATEST_FIRST (mut == 3)  /* LATEST is written before the object */
#define NO_SYNC (mut == 4)       /* the object's name is on disk before its content */
#define PRUNE_FIRST (mut == 5)   /* prunes before the new LATEST is on disk */
#define PRUNE_NAMED (mut == 6)   /* prunes the object in LATEST */
#define PRUNE_AHEAD (mut == 7)   /* prunes newer objects, which another worker may be about to name */
#define SAME_AGAIN (mut == 8)    /* a lost swap is retried with the old version */

/* the store as the processes see it and as it is on disk; bit s: the object of step s */
byte seen_objects, disk_objects, torn, latest, disk_latest;
byte acked;                      /* ghost: LATEST of the last swap that has returned */
byte faults, cuts;
/* the workers */
bool ended[W];
byte cur[W], pass[W], at[W], work[W];
hidden byte a, n, c;

#define sync() disk_objects = seen_objects; disk_latest = latest
mtype = { Start, Load, Train, Look, Create, Sync, Back, Swap, Swapped, Prune };
mtype pc[W];

#define idle(i) (pc[i] == Train)
inline load(i, s) {
  assert(!has(torn, s) || s == 0);                                          /* whole */
  cur[i] = s; at[i] = 0; pc[i] = Train
}

inline prune(i) {
  a = 1; n = 0;
  do :: a <= S -> n = n + has(seen_objects, a); a++ :: else -> break od;
  a = 1;
  do
  :: a <= S && n > KEEP ->
     if
     :: has(seen_objects, a) ->
        if :: (a != object(work[i]) || PRUNE_NAMED) && (a < object(work[i]) || PRUNE_AHEAD || PRUNE_NAMED) -> seen_objects = seen_objects & ~bit(a) :: else fi;
        n--
     :: else
     fi;
     a++
  :: else -> break
  od;
  a = 0; n = 0
}
#define wholelatest (latest == 0 || has(seen_objects, object(latest)))

proctype Worker(byte i) {
  do
  :: d_step { pc[i] == Start ->
       at[i] = latest;
       if
       :: latest > 0 && has(seen_objects, object(latest)) && !has(torn, object(latest)) && latest > S -> ended[i] = 1; cur[i] = 0; at[i] = 0; pc[i] = Train
       :: latest > 0 && !(has(seen_objects, object(latest)) && !has(torn, object(latest)) && latest > S) -> pc[i] = Load
       :: latest == 0 -> pc[i] = Load
       fi }
  :: d_step { pc[i] == Load ->                                              /* LATEST may have moved, and its object been pruned */
       if
       :: at[i] > 0 && has(seen_objects, object(at[i])) && !has(torn, object(at[i])) -> load(i, object(at[i]))
       :: at[i] > 0 && !(has(seen_objects, object(at[i])) && !has(torn, object(at[i]))) && latest != at[i] -> pc[i] = Start; at[i] = 0
       :: else -> c = seen_objects & ~torn; c = top(c); assert(c >= object(acked)); load(i, c); c = 0     /* acked: the newest whole object */
       fi }
  :: d_step { pc[i] == Train && !ended[i] && cur[i] < S -> cur[i] = cur[i] + 1 }
  :: d_step { pc[i] == Train && !ended[i] && cur[i] > 0 && cur[i] > pass[i] -> work[i] = cur[i]; pc[i] = Look }
  :: d_step { pc[i] == Train && !ended[i] && cur[i] == S -> work[i] = S + 1; pc[i] = Look }
  :: d_step { pc[i] == Look ->
       at[i] = latest;
       if
       :: latest >= work[i] && !ANY_STEP ->
          if :: latest == S + 1 && work[i] == S + 1 -> ended[i] = 1; cur[i] = 0; pass[i] = 0 :: else -> pass[i] = object(work[i]) fi;
          work[i] = 0; at[i] = 0; pc[i] = Train
       :: (latest < work[i] || ANY_STEP) && LATEST_FIRST -> pc[i] = Swap
       :: (latest < work[i] || ANY_STEP) && !LATEST_FIRST -> pc[i] = Create
       fi }
  :: d_step { pc[i] == Create ->
       if
       :: has(seen_objects, object(work[i])) && !has(torn, object(work[i])) -> pc[i] = Back          /* of another worker, or of an earlier process: maybe not synced */
       :: else -> seen_objects = seen_objects | bit(object(work[i])); torn = torn & ~bit(object(work[i])); pc[i] = Sync
       fi }
  :: d_step { pc[i] == Sync -> sync(); pc[i] = Back }
  :: d_step { pc[i] == Back ->
       if
       :: !has(seen_objects, object(work[i])) -> pc[i] = Look; at[i] = 0                              /* "was deleted by another process" */
       :: has(seen_objects, object(work[i])) && LATEST_FIRST -> pc[i] = Prune
       :: has(seen_objects, object(work[i])) && !LATEST_FIRST -> pc[i] = Swap
       fi }
  :: d_step { pc[i] == Swap ->
       if
       :: latest != at[i] && !NO_SWAP && !SAME_AGAIN -> pc[i] = Look; at[i] = 0
       :: latest != at[i] && SAME_AGAIN && !NO_SWAP -> skip
       :: latest == at[i] || NO_SWAP ->
          assert(work[i] > latest);                                         /* monotone */
          latest = work[i]; at[i] = 0;
          assert(wholelatest);                                              /* whole */
          if :: PRUNE_FIRST -> prune(i) :: else fi;
          pc[i] = Swapped
       fi }
  :: d_step { pc[i] == Swapped ->
       sync(); acked = latest; pass[i] = object(work[i]);
       if :: LATEST_FIRST -> pc[i] = Create :: else -> pc[i] = Prune fi }
  :: d_step { pc[i] == Prune ->
       if :: !PRUNE_FIRST -> prune(i) :: else fi;
       assert(wholelatest);                                                 /* whole */
       if :: work[i] == S + 1 -> ended[i] = 1; cur[i] = 0; pass[i] = 0 :: else fi;
       work[i] = 0; pc[i] = Train }
  :: ended[i] -> break
  od
}

#define forget(i) cur[i] = 0; pass[i] = 0; at[i] = 0; work[i] = 0; pc[i] = Start
proctype Faults() {
  byte i;
  do
  :: atomic { faults > 0 -> if :: i = 0 :: i = 1 :: W > 2 -> i = W - 1 fi;
       if :: !ended[i] -> d_step { faults--; forget(i) } :: else fi; i = 0 }
  :: faults > 0 -> faults--                                                 /* or there is no fault */
  :: atomic { cuts > 0 ->
       cuts--;
       i = 1;
       do                                                                   /* each name independently */
       :: i <= S ->
          if
          :: has(seen_objects, i) != has(disk_objects, i) ->
             if
             :: skip
             :: seen_objects = (seen_objects & ~bit(i)) | (disk_objects & bit(i))
             fi
          :: else
          fi;
          if :: NO_SYNC && has(seen_objects, i) && !has(torn, i) && work[0] == i -> torn = torn | bit(i) :: else fi;
          i++
       :: else -> break
       od;
       if :: latest != disk_latest -> if :: skip :: latest = disk_latest fi :: else fi;
       assert(latest >= acked);                                             /* acked */
       d_step {
         i = 0; sync();
         do :: i < W -> if :: !ended[i] -> forget(i) :: else fi; i++ :: else -> break od;
         i = 0
       } }
  :: cuts > 0 -> cuts--
  :: faults == 0 && cuts == 0 -> break
  od
}

init {
  atomic {
    c_code { mut = setting("MUT"); now.faults = setting("FAULTS"); now.cuts = setting("CUTS"); };
    a = 0;
    do :: a < W -> pc[a] = Start; a++ :: else -> break od;
    a = 0;
    do :: a < W -> run Worker(a); a++ :: else -> break od;
    a = 0;
    run Faults()
  }
}
#define over (ended[0] && ended[1] && (W < 3 || ended[W - 1]) && latest == S + 1 && disk_latest == S + 1)
ltl end { <> [] over }
