package farnet

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if was, err := RunHost(); was {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestDelayAndCut checks that packets are delayed both ways, and that none reaches a host that is cut off.
func TestDelayAndCut(t *testing.T) {
	n, err := New(Config{Hosts: 2, Delay: 50 * time.Millisecond})
	if err != nil {
		t.Skip("this machine makes no networks: ", err)
	}
	defer func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}()
	a, b := n.Hosts()[0], n.Hosts()[1]
	serve := a.Command("python3", "-c", "import socket; s=socket.create_server(('',7)); print('up',flush=True)\nwhile True:\n c,_=s.accept(); c.close()")
	server := exec.Command(serve[0], serve[1:]...)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill(); _ = server.Wait() }()
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	reach := func() (time.Duration, error) {
		args := b.Command("python3", "-c", fmt.Sprintf("import socket,time; t=time.time(); socket.create_connection(('%s',7),2); print(int(1e9*(time.time()-t)))", a.Address))
		text, err := exec.Command(args[0], args[1:]...).Output()
		var took int64
		if err == nil {
			_, err = fmt.Sscan(string(text), &took)
		}
		return time.Duration(took), err
	}
	took, err := reach()
	if err != nil || took < 100*time.Millisecond {
		t.Errorf("a connection took %v, %v", took, err)
	}
	a.Cut(true)
	if took, err := reach(); err == nil {
		t.Errorf("a host that is cut off was reached in %v", took)
	}
	a.Cut(false)
	if _, err := reach(); err != nil {
		t.Error(err)
	}
}
