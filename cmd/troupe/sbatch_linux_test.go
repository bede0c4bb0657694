package main

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// slurmPrograms replace Slurm's: nodes are addresses of this machine, which on Linux has all of 127.0.0.0/8. python3 does what the test's
// program says.
var slurmPrograms = map[string]string{
	"srun": `#!/bin/bash
echo "$*" > "$STATE/srun.args"
while [ "$1" != troupe ]; do shift; done
echo $$ > "$STATE/srun.pid"
for rank in 0 1 2 3; do
	SLURM_STEP_NODELIST=$SLURM_JOB_NODELIST SLURM_STEP_TASKS_PER_NODE='1(x4)' SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=$rank SLURM_LOCALID=0 \
		"$@" 2>> "troupe-$SLURM_JOB_ID-$rank.log" &
	tasks+=($!)
done
echo "${tasks[*]}" > "$STATE/tasks"
trap 'kill -TERM "${tasks[@]}"' TERM
left=4
while [ $left -gt 0 ]; do
	wait -n; code=$?
	if [ $code = 143 ]; then continue; fi # the signal has ended the wait, not a task
	left=$((left - 1))
	echo $code >> "$STATE/codes"
	if [ $code != 0 ]; then kill -KILL "${tasks[@]}"; exit $code; fi # --kill-on-bad-exit
done
`,
	"scontrol": "#!/bin/bash\n[ \"$*\" = \"show hostnames 127.0.0.[1,4-6]\" ] && printf '127.0.0.%s\\n' 1 4 5 6\n",
	"scancel":  "#!/bin/bash\n[ \"$*\" = \"--signal=TERM $SLURM_JOB_ID.0\" ] && kill -TERM \"$(cat \"$STATE/srun.pid\")\"\n",
	"python3":  "#!/bin/bash\n[ \"$1\" = train.py ] && troupe status \"$TARGETS\" > \"$STATE/status\" && . \"$STATE/program\"\n",
}

// batch runs the batch script as job 17 with the stand-ins for Slurm's programs, some of them replaced, and a program, in a shell's words.
type batch struct {
	t      *testing.T
	folder string
	port   string // of the tasks; empty: the one that follows from the job
	out    string // what the job has printed
}

func newBatch(t *testing.T, program string, replaced map[string]string) *batch {
	t.Helper()
	b := &batch{t: t, folder: t.TempDir()}
	script, err := os.ReadFile("../../deploy/slurm/troupe.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := maps.Clone(slurmPrograms)
	maps.Copy(programs, replaced)
	programs["program"], programs["troupe.sbatch"] = program, string(script)
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(b.folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if programs["troupe"] == "" {
		if err := os.Symlink(self, filepath.Join(b.folder, "troupe")); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// run runs the job to its end.
func (b *batch) run() error {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "troupe.sbatch")
	cmd.Dir = b.folder
	cmd.Env = append(os.Environ(), "PATH="+b.folder+":"+os.Getenv("PATH"), "STATE="+b.folder, "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=127.0.0.[1,4-6]")
	if b.port != "" {
		cmd.Env = append(cmd.Env, "TROUPE_PORT="+b.port)
	}
	// The servers end with the script.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	b.out = string(out)
	if ctx.Err() != nil {
		b.t.Fatalf("the job does not end: %s", out)
	}
	return err
}

// read returns a file that the job has left; it is empty if there is none.
func (b *batch) read(name string) string {
	text, err := os.ReadFile(filepath.Join(b.folder, name))
	if err != nil {
		b.t.Error(err)
	}
	return string(text)
}

func freeBatchPort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(spectest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// The batch script starts a cluster, runs a program with the cluster's targets when all tasks are up, and stops the tasks in order.
func TestBatchScript(t *testing.T) {
	b := newBatch(t, "", nil)
	b.port = freeBatchPort(t)
	if err := b.run(); err != nil {
		t.Fatalf("%v: %s", err, b.out)
	}
	if status := b.read("status"); strings.Count(status, " up ") != 4 || !strings.Contains(status, "/job:worker/replica:0/task:2  127.0.0.6:"+b.port) {
		t.Errorf("the program saw %s", status)
	}
	if codes := b.read("codes"); codes != "0\n0\n0\n0\n" {
		t.Errorf("the tasks ended with %q: %s", codes, b.out)
	}
}

// The job fails with its program.
func TestBatchScriptWhoseProgramFails(t *testing.T) {
	b := newBatch(t, "exit 7", nil)
	b.port = freeBatchPort(t)
	var exit *exec.ExitError
	if err := b.run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("%v: %s", err, b.out)
	}
	if codes := b.read("codes"); codes != "0\n0\n0\n0\n" {
		t.Errorf("the tasks ended with %q: %s", codes, b.out)
	}
	b.says("==> troupe-17-2.log <==", "msg=stopping")
}

// The job ends, failed and with the words of the tasks, as soon as the servers' step has ended: before all tasks are up, as where a port is
// taken, and while the program runs, which would wait for the lost worker.
func TestBatchScriptWhoseServersEnd(t *testing.T) {
	const forever = "\nread <> <(:)\n" // what nothing is ever written to
	t.Run("a port is taken", func(t *testing.T) {
		b := newBatch(t, forever, nil)
		b.port = freeBatchPort(t)
		l, err := net.Listen("tcp", "127.0.0.5:"+b.port)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		b.fails("127.0.0.5:"+b.port, "port "+b.port+" is taken")
	})
	t.Run("a worker is killed", func(t *testing.T) {
		b := newBatch(t, `set -- $(cat "$STATE/tasks"); kill -KILL $3`+forever, nil)
		b.port = freeBatchPort(t)
		b.fails("==> troupe-17-2.log <==", "level=INFO")
	})
	t.Run("a worker is killed, and the program fails before the step has ended", func(t *testing.T) {
		b := newBatch(t, `set -- $(cat "$STATE/tasks"); kill -KILL $3; exit 1`, nil)
		b.port = freeBatchPort(t)
		b.fails("==> troupe-17-2.log <==", "level=INFO")
	})
	t.Run("the step does not begin", func(t *testing.T) {
		b := newBatch(t, forever, map[string]string{"srun": "#!/bin/bash\necho \"$*\" > \"$STATE/srun.args\"\necho 'srun: error: Unable to create step' >&2\nexit 1\n",
			"scancel": "#!/bin/bash\nexit 1\n"})
		b.fails("Unable to create step")
		// 16 ports for each of 1,250 jobs.
		if args := b.read("srun.args"); !strings.Contains(args, " --slurm-port 10272 ") {
			t.Errorf("the port does not follow from the job: %s", args)
		}
	})
	t.Run("the step still waits for its nodes", func(t *testing.T) {
		b := newBatch(t, "", map[string]string{"srun": "#!/bin/bash" + forever, "scancel": "#!/bin/bash\nexit 1\n",
			"troupe": "#!/bin/bash\necho 'troupe wait: not ready' >&2\nexit 1\n"})
		b.fails("troupe wait: not ready")
	})
}

// fails runs a job that fails with these words.
func (b *batch) fails(words ...string) {
	b.t.Helper()
	var exit *exec.ExitError
	if err := b.run(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		b.t.Errorf("the job ended with %v: %s", err, b.out)
	}
	b.says(words...)
}

// says checks that the job's output has these words, none of which is an error of the script's own.
func (b *batch) says(words ...string) {
	b.t.Helper()
	if strings.Contains(b.out, "troupe.sbatch: line") {
		b.t.Errorf("the job complains: %s", b.out)
	}
	for _, w := range words {
		if !strings.Contains(b.out, w) {
			b.t.Errorf("the job does not say %q: %s", w, b.out)
		}
	}
}
