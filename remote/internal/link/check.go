package link

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Describe returns a description of a process, for messages to people.
func Describe(id *wire.Identity) string {
	return fmt.Sprintf("%s at %s (process %d on %s, boot %016x, since %s)",
		id.GetTask(), id.GetAddress(), id.GetPid(), id.GetHost(), id.GetBoot(), stamp(time.Unix(0, id.GetStarted())))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Protocol is the version of the protocol between tasks. Increment it with every change after which a task of the previous version
// would misunderstand or refuse what this one sends, or the other way round. Tasks with different protocols cannot be in one cluster.
const Protocol = 2

// checkProtocol refuses a process that speaks another protocol, with FAILED_PRECONDITION. The message names both sides.
func checkProtocol(self, other *wire.Identity) error {
	if self.GetProtocol() == other.GetProtocol() {
		return nil
	}
	return status.Errorf(status.FailedPrecondition, "%s runs %s, whose tasks speak protocol %d, and %s runs %s with protocol %d: they cannot be in one cluster. Start all tasks with versions of the same protocol.",
		Describe(self), versionOf(self), self.GetProtocol(), Describe(other), versionOf(other), other.GetProtocol())
}

func versionOf(id *wire.Identity) string {
	if id.GetVersion() == "" {
		return "an unknown version of Troupe"
	}
	return "Troupe " + id.GetVersion()
}

// checkSpec refuses a process whose cluster spec is of another cluster, with FAILED_PRECONDITION. The message names both sides.
func checkSpec(self *wire.Identity, own *spec.Spec, other *wire.Identity) error {
	theirs, err := spec.Parse(other.GetSpec())
	if err != nil {
		return status.Errorf(status.FailedPrecondition, "%s and %s cannot be in one cluster: the cluster spec of the latter is invalid: %v", Describe(self), Describe(other), err)
	}
	task, there := theirs.ByName(other.GetTask())
	if !there || task.Address != other.GetAddress() {
		return status.Errorf(status.FailedPrecondition, "%s turns %s away: its own cluster spec has no such task at that address.", Describe(self), Describe(other))
	}
	if clash := own.Clash(self.GetTask(), theirs, other.GetTask()); clash != "" {
		return status.Errorf(status.FailedPrecondition, "%s and %s were started with different cluster specs: here is the former, there the latter, and %s. Start both with the same cluster spec.",
			Describe(self), Describe(other), clash)
	}
	return nil
}

// checkGreeting is the check of the greeted process: the caller must belong to the cluster, and
// this process must be the one that it wants to reach.
func checkGreeting(self *wire.Identity, own *spec.Spec, g *wire.Greeting) error {
	if g.GetFrom() == nil {
		return status.InvalidArgumentf("The greeting does not identify its sender.")
	}
	if err := checkProtocol(self, g.GetFrom()); err != nil {
		return err
	}
	if err := checkSpec(self, own, g.GetFrom()); err != nil {
		return err
	}
	if err := checkMet(self, g.GetTask(), g.GetAddress()); err != nil {
		return err
	}
	if g.GetBoot() != 0 && g.GetBoot() != self.GetBoot() {
		return status.Errorf(status.Aborted, "%s was expected with boot %016x, but it has been restarted: %s.", g.GetTask(), g.GetBoot(), Describe(self))
	}
	return nil
}

// checkWelcome is the greeting process's check of the answer.
func checkWelcome(self *wire.Identity, own *spec.Spec, want spec.Task, met *wire.Identity) error {
	if err := checkProtocol(self, met); err != nil {
		return err
	}
	if err := checkSpec(self, own, met); err != nil {
		return err
	}
	return checkMet(met, want.Name(), want.Address)
}

// checkMet refuses a process other than the expected one. The process may write its own host differently.
func checkMet(met *wire.Identity, task, address string) error {
	if met.GetTask() != task || !spec.SamePort(met.GetAddress(), address) {
		return status.Errorf(status.FailedPrecondition, "%s (%s) was expected, but that address leads to %s.", task, address, Describe(met))
	}
	return nil
}
