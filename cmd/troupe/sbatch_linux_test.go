package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/remote/spec/spectest"
)

// slurmPrograms replace Slurm's: nodes are addresses of this machine, which on Linux has all of 127.0.0.0/8.
var slurmPrograms = map[string]string{
	"srun": `#!/bin/bash
while [ "$1" != troupe ]; do shift; done
echo $$ > "$STATE/srun.pid"
for rank in 0 1 2 3; do
	SLURM_STEP_NODELIST=$SLURM_JOB_NODELIST SLURM_STEP_TASKS_PER_NODE='1(x4)' SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=$rank SLURM_LOCALID=0 \
		"$@" 2>> "$STATE/log" &
	tasks+=($!)
done
trap 'kill -TERM "${tasks[@]}"' TERM
for task in "${tasks[@]}"; do
	wait "$task"; code=$?
	if [ $code -gt 128 ]; then wait "$task"; code=$?; fi # the signal has ended the first wait
	echo $code >> "$STATE/codes"
done
`,
	"scontrol": "#!/bin/bash\n[ \"$*\" = \"show hostnames 127.0.0.[1,4-6]\" ] && printf '127.0.0.%s\\n' 1 4 5 6\n",
	"scancel":  "#!/bin/bash\n[ \"$*\" = \"--signal=TERM 17.0\" ] && kill -TERM \"$(cat \"$STATE/srun.pid\")\"\n",
	"python3":  "#!/bin/bash\n[ \"$1\" = train.py ] && troupe status \"$TARGETS\" > \"$STATE/status\"\n",
}

// The batch script starts a cluster, runs a program with the cluster's targets when all tasks are up, and stops the tasks in order.
func TestBatchScript(t *testing.T) {
	script, err := os.ReadFile("../../deploy/slurm/troupe.sbatch")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(spectest.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(script), "\nPORT=8888\n", "\nPORT="+port+"\n", 1)
	if text == string(script) {
		t.Fatal("the script does not set the port")
	}
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range slurmPrograms {
		write(name, text)
	}
	write("troupe.sbatch", text)
	if err := os.Symlink(self, filepath.Join(folder, "troupe")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(folder, "troupe.sbatch"))
	cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "STATE="+folder, "SLURM_JOB_ID=17", "SLURM_JOB_NODELIST=127.0.0.[1,4-6]")
	// The servers end with the script.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = patience
	out, err := cmd.CombinedOutput()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Errorf("%v", err)
		}
		return string(text)
	}
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, read("log"))
	}
	if status := read("status"); strings.Count(status, " up ") != 4 || !strings.Contains(status, "/job:worker/replica:0/task:2  127.0.0.6:"+port) {
		t.Errorf("the program saw %s", status)
	}
	if codes := read("codes"); codes != "0\n0\n0\n0\n" {
		t.Errorf("the tasks ended with %q:\n%s", codes, read("log"))
	}
}
