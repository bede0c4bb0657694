package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/troupe-run/troupe/cmd/troupe/internal/doctor"
	"github.com/troupe-run/troupe/internal/command/exit"
	"github.com/troupe-run/troupe/internal/command/flagset"
	"github.com/troupe-run/troupe/internal/command/plain"
	"github.com/troupe-run/troupe/internal/view"
)

const doctorHelp = `Doctor looks for what is wrong with a cluster and with this machine, and says what to do about it. The
cluster is that of the server at TARGET, the first of several that answers, or the one that --cluster
declares, which need not run. With neither, it is that of TROUPE_TARGET or of the context that was chosen
(see troupe context), or else the one that TF_CONFIG declares. For each task, it looks up the host, connects to
the port over TCP and UDP, and asks what serves there: its cluster, version, clock, and which other tasks it
sees. Of this machine, and of tasks that run on it, it looks at memory, files, processors, disks, cards and
variables of the environment. With --job and --task, it also checks that this machine has the task's address.
It changes nothing.

It exits with 1 if a finding is an error.`

func newDoctor() *cobra.Command {
	var c doctor.Config
	var asJSON bool
	var timeout time.Duration
	var identity clientFlags
	cmd := &cobra.Command{
		Use:     "doctor [TARGET[,TARGET…]]",
		Short:   "Find what is wrong with a cluster or this machine",
		Long:    doctorHelp,
		Example: "  troupe doctor grpc://10.0.0.2:2222\n  troupe doctor --cluster 'ps=10.0.0.1:2222;worker=10.0.0.2:2222' --job worker",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usage(fmt.Errorf("one target is expected at most; %s", given(args)))
			}
			if len(args) == 1 {
				return noTask(cmd, args[0])
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Cluster, "cluster", "", "the cluster, as job=host:port,host:port;job=host:port")
	flags.StringVar(&c.Job, "job", "", "the job of the task that is to run on this machine")
	flagset.Int(flags, &c.Task, "task", 0, flagset.UpTo(math.MaxInt32), "the index of that task in its job")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flagset.Duration(flags, &timeout, "timeout", 30*time.Second, flagset.Wait, "how long to look at most")
	identity.add(flags)
	named := flags.String("context", "", "the context that has the target and what to show to it (troupe context)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && c.Cluster != "" {
			return exit.Usage(errors.New("the cluster is given twice, by TARGET and by --cluster"))
		}
		if c.Job == "" && flags.Changed("task") {
			return exit.Usage(errors.New("--task counts in a job: give --job too"))
		}
		if *named != "" && c.Cluster != "" {
			return exit.Usage(errors.New("the cluster is given twice, by --context and by --cluster"))
		}
		if c.Cluster == "" {
			full, err := operands{}.fullArguments(cmd, *named, args)
			if err != nil && !errors.Is(err, errNoTarget) { // without a target it looks at this machine, and at what TF_CONFIG declares
				return err
			}
			c.Target = strings.Join(full, "")
		}
		opts, release, err := identity.load(nil)
		if err != nil {
			return exit.Usage(err)
		}
		defer release()
		c.Options = opts
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		facts := doctor.Collect(ctx, c)
		findings := doctor.Check(facts)
		if asJSON {
			err = printJSON(cmd.OutOrStdout(), doctorRecordOf(facts, findings))
		} else {
			err = printDoctor(cmd.OutOrStdout(), facts, findings)
		}
		if err != nil {
			return exit.Failed(err)
		}
		if n := countErrors(findings); n > 0 {
			return exit.Failed(fmt.Errorf("%s among %s", view.Count(int64(n), "error"), view.Count(int64(len(findings)), "finding")))
		}
		return nil
	}
	return cmd
}

func countErrors(findings []doctor.Finding) (n int) {
	for _, f := range findings {
		if f.Severity == doctor.Error {
			n++
		}
	}
	return n
}

// What --json prints; durations are in seconds.
type (
	doctorRecord struct {
		Cluster  string              `json:"cluster"`
		Tasks    []examinedRecord    `json:"tasks"`
		Findings []doctor.Finding    `json:"findings"`
		Machine  doctorMachineRecord `json:"machine"`
	}
	examinedRecord struct {
		Task        string  `json:"task,omitempty"`
		Address     string  `json:"address"`
		Answers     string  `json:"answers"`
		TCP         string  `json:"tcp"`
		UDP         string  `json:"udp"`
		Connect     float64 `json:"connect"`
		RoundTrip   float64 `json:"round_trip"`
		UDPTrip     float64 `json:"udp_round_trip"`
		ClockAhead  float64 `json:"clock_ahead"`
		Version     string  `json:"version"`
		OnThisOne   bool    `json:"local"`
		MemoryLimit int64   `json:"memory_limit"` // bytes; 0 if it is not known
	}
	doctorMachineRecord struct {
		Processors int     `json:"processors"`
		Quota      float64 `json:"processor_quota"` // 0 for none
		Memory     int64   `json:"memory"`
		Available  int64   `json:"memory_available"`
		FileLimit  int64   `json:"file_limit"`
		TempDir    string  `json:"temp_dir"`
		TempFree   int64   `json:"temp_free"`
		Cards      int     `json:"cards"`
	}
)

func doctorRecordOf(f *doctor.Facts, findings []doctor.Finding) doctorRecord {
	m := f.Machine
	r := doctorRecord{Cluster: f.Declared, Tasks: []examinedRecord{}, Findings: findings,
		Machine: doctorMachineRecord{m.Processors, m.Quota, m.Memory, m.Available, m.FileLimit, m.TempDir, m.TempFree, m.GPUs}}
	for i := range f.Tasks {
		t := &f.Tasks[i]
		p := t.Serves()
		r.Tasks = append(r.Tasks, examinedRecord{t.Name, t.Address, string(t.Answers), string(t.TCP.Outcome), string(t.UDP.Outcome), t.TCP.RoundTrip.Seconds(),
			t.RoundTrip.Seconds(), t.UDP.RoundTrip.Seconds(), t.Skew.Seconds(), p.GetVersion(), t.Local, p.GetMemoryLimit()})
	}
	return r
}

func printDoctor(w io.Writer, f *doctor.Facts, findings []doctor.Finding) error {
	if len(f.Tasks) > 0 {
		t := table(w, "TASK", "ADDRESS", "ANSWERS", "TCP", "UDP", "CALL", "CLOCK", "VERSION")
		for i := range f.Tasks {
			k := &f.Tasks[i]
			clock, call := "-", "-"
			if k.Seen != nil {
				clock, call = k.Skew.Round(10*time.Microsecond).String(), brief(k.RoundTrip)
			}
			t.row(orDash(k.Name), k.Address, orDash(string(k.Answers)), probeText(k.TCP), probeText(k.UDP), call, clock, orDash(k.Serves().GetVersion()))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	for _, finding := range findings {
		about := ""
		if finding.Task != "" {
			about = finding.Task + ": "
		}
		if _, err := plain.Printf(w, "\n%s (%s): %s%s\n  → %s\n", finding.Severity, finding.Check, about, finding.Found, finding.Remedy); err != nil {
			return err
		}
	}
	if len(findings) == 0 {
		_, err := plain.Println(w, "", "nothing is wrong")
		return err
	}
	return nil
}

func probeText(p doctor.Probe) string {
	if p.Outcome == doctor.Answered {
		return brief(p.RoundTrip)
	}
	return orDash(string(p.Outcome))
}

// brief formats a duration for people, with three digits.
func brief(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return d.Round(10 * time.Nanosecond).String()
	case d < 10*time.Millisecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
