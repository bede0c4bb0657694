package proxy_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-run/troupe/remote/proxy"
)

// TestOtherUsers checks that programs of other users do not get the identity, unless AnyUser is set.
func TestOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to be several users")
	}
	_, alice := identities(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	const somebody = 65534
	for _, c := range []struct {
		uid  uint32
		any  bool
		want string
	}{{somebody, false, "refused"}, {somebody, true, "carried"}, {0, false, "carried"}} {
		p := listen(t, proxy.Config{Target: mute.Addr().String(), Credentials: alice, AnyUser: c.any})
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), connectEnv+"="+p.Address().String())
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.uid}}
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("user %d, any user %v: %s, %v", c.uid, c.any, got, err)
		}
	}
}
