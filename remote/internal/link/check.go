package link

import (
	"fmt"
	"time"

	"github.com/troupe-run/troupe/graph/status"
	"github.com/troupe-run/troupe/remote/internal/wire"
	"github.com/troupe-run/troupe/remote/spec"
)

// Describe is a process in words, for messages to people.
func Describe(id *wire.Identity) string {
	return fmt.Sprintf("%s at %s (process %d on %s, boot %016x, since %s)",
		id.GetTask(), id.GetAddress(), id.GetPid(), id.GetHost(), id.GetBoot(), stamp(time.Unix(0, id.GetStarted())))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// Protocol is the form of the messages between tasks. Whoever changes it so that a task of the version before would misunderstand or
// refuse what this one sends, or the other way round, counts it up, and then tasks of both cannot be in one cluster.
const Protocol = 1

// checkProtocol refuses a process that speaks another protocol. The message names both sides. FAILED_PRECONDITION.
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

// checkSpec refuses a process whose cluster spec is another one, or that is not at the address
// that the spec gives its task. The message names both sides. FAILED_PRECONDITION.
func checkSpec(self *wire.Identity, own *spec.Spec, other *wire.Identity) error {
	theirs, err := spec.Parse(other.GetSpec())
	if err != nil {
		return status.Errorf(status.FailedPrecondition, "%s and %s cannot be in one cluster: the cluster spec of the latter is invalid: %v", Describe(self), Describe(other), err)
	}
	if !theirs.Equal(own) {
		return status.Errorf(status.FailedPrecondition, "%s and %s were started with different cluster specs: here is the former, there the latter, and %s. Start both with the same cluster spec.",
			Describe(self), Describe(other), own.Diff(theirs))
	}
	if task, ok := own.ByName(other.GetTask()); !ok || task.Address != other.GetAddress() {
		return status.Errorf(status.FailedPrecondition, "%s turns %s away: the cluster spec of both has no such task at that address.", Describe(self), Describe(other))
	}
	return nil
}

// checkGreeting is what the greeted process checks: that the caller belongs to the cluster, and
// that this process is the one which it wants to reach.
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

// checkWelcome is what the greeting process checks of the answer.
func checkWelcome(self *wire.Identity, own *spec.Spec, want spec.Task, met *wire.Identity) error {
	if err := checkProtocol(self, met); err != nil {
		return err
	}
	if err := checkSpec(self, own, met); err != nil {
		return err
	}
	return checkMet(met, want.Name(), want.Address)
}

func checkMet(met *wire.Identity, task, address string) error {
	if met.GetTask() != task || met.GetAddress() != address {
		return status.Errorf(status.FailedPrecondition, "%s (%s) was expected, but that address leads to %s.", task, address, Describe(met))
	}
	return nil
}
