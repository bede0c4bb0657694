package node

import (
	"cmp"
	"time"

	"github.com/troupe-run/troupe/actors/cast"
	"github.com/troupe-run/troupe/graph/status"
)

// Virtual is the option of WithActor that makes the actors of the kind virtual: one for each identity that a message is sent to. They are
// not spawned, and have no task of their own.
//
//	accounts := node.WithActor("account", newAccount, node.Virtual{Job: "worker"})
//	…
//	balance, err := node.Ask[*wrapperspb.Int64Value](ctx, n, node.VirtualActor("account", "alice"), &emptypb.Empty{})
//
// A virtual actor begins with its first message, on one of the cluster's tasks that are up, which all tasks determine alike from the identity.
// The kind's ActorMaker finds the identity in ActorContext.Self, and gets no arguments. The actor ends after a time without messages, when
// its identity moves to another task, since a task came, was lost or stopped, and when it fails, unless it restarts. Its next message makes it
// anew. What it is to remember is in variables or queues of the cluster, or in files. A virtual actor can be sent to, asked and forwarded to like any
// other, but not watched. The option belongs into the program of each task of the job, and of each task that sends to the kind.
//
// At most one actor of an identity handles messages at a time, in a partition too, with the exceptions below. For that, the tasks elect one of them
// to lead, by a majority of the first nine tasks of the cluster's spec (of an even number, half of them with the first is a majority), and a
// task that has not heard from the leader for 3.5 s ends its virtual actors. Programs without virtual actors, such as troupe serve, vote too. A task
// without a majority answers UNAVAILABLE.
//
//   - An actor that moves ends when it returns from Receive; its Context ends before that. If it does not return within 10 s, its successor
//     begins. If its task has lost the majority, its successor begins 4 s after that at the latest, whether it has returned or not.
//   - It is assumed that the clocks of the tasks run at the same speed, within a twentieth.
//
// An Ask that an actor had not begun to handle when it ended is sent anew, for up to 15 s. Other messages that were waiting are lost.
type Virtual struct {
	// Job is the job on whose tasks the actors live; empty for all tasks whose programs have virtual actors.
	Job string
	// Idle is how long an actor without messages lives. Timers and answers are no messages. 0 means 10 minutes.
	Idle time.Duration
	// Always are identities whose actors live without messages: singletons of the cluster.
	Always []string
}

func (v Virtual) apply(k *actorKind) error {
	if v.Idle < 0 {
		return status.InvalidArgumentf("Idle of the option Virtual must not be negative, as %v is", v.Idle)
	}
	k.virtual = &cast.Virtual{Job: v.Job, Idle: cmp.Or(v.Idle, 10*time.Minute), Always: v.Always}
	return nil
}

// VirtualActor returns the reference to a virtual actor; see Virtual. The kind and the identity together have at most 255 bytes, without
// spaces, ? and #.
func VirtualActor(kind, identity string) ActorRef { return ActorRef{cast.VirtualRef(kind, identity)} }
