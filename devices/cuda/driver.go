//go:build cuda && cgo && linux

package cuda

// #cgo CFLAGS: -I/usr/local/cuda/include
// #include "call.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"gorgonia.org/cu"

	"github.com/troupe-run/troupe/devices/cuda/shim"
	"github.com/troupe-run/troupe/devices/gpu"
	kernels "github.com/troupe-run/troupe/kernels/cuda"
)

// Driver is CUDA's driver. All values are equal, since a process has one driver.
type Driver struct{}

// Cards returns the cards that the driver reports. It asks the driver once per process.
func (Driver) Cards() ([]gpu.Card, error) { return cards() }

var cards = sync.OnceValues(func() ([]gpu.Card, error) {
	list, err := listCards()
	if visible, set := os.LookupEnv("CUDA_VISIBLE_DEVICES"); err != nil && set {
		err = fmt.Errorf("%w (CUDA_VISIBLE_DEVICES is %q)", err, visible)
	}
	return list, err
})

// Version returns the newest CUDA version that the driver supports: 1000 times the major number plus 10 times the minor one.
func Version() (int, error) {
	if err := shim.Open(); err != nil {
		return 0, err
	}
	var version C.int
	err := result("cuDriverGetVersion", C.cuDriverGetVersion(&version))
	return int(version), err
}

func listCards() ([]gpu.Card, error) {
	if err := shim.Open(); err != nil {
		return nil, err
	}
	count, err := cu.NumDevices()
	if err != nil {
		return nil, check("cuDeviceGetCount", err)
	}
	if count == 0 {
		return nil, errors.New("the CUDA driver shows no GPU")
	}
	list := make([]gpu.Card, count)
	for i := range list {
		device, err := cu.GetDevice(i)
		if err != nil {
			return nil, check("cuDeviceGet", err)
		}
		info, err := describe(device)
		if err != nil {
			return nil, err
		}
		list[i] = &card{device: device, info: info}
	}
	return list, nil
}

// describe queries the Info of a card.
func describe(device cu.Device) (info gpu.Info, err error) {
	if info.Name, err = device.Name(); err != nil {
		return info, check("cuDeviceGetName", err)
	}
	if info.Memory, err = device.TotalMem(); err != nil {
		return info, check("cuDeviceTotalMem", err)
	}
	var major, minor int
	for _, a := range []struct {
		of  cu.DeviceAttribute
		dst *int
	}{
		{cu.ComputeCapabilityMajor, &major},
		{cu.ComputeCapabilityMinor, &minor},
		{cu.MultiprocessorCount, &info.Processors},
		{C.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &info.SharedMemory},
		{C.CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &info.Clock},
		{C.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &info.MemoryClock},
		{C.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, &info.MemoryBus},
	} {
		if *a.dst, err = device.Attribute(a.of); err != nil {
			return info, check("cuDeviceGetAttribute", err)
		}
	}
	info.Compute = major*10 + minor
	var pci [32]C.char
	if err := result("cuDeviceGetPCIBusId", C.cuDeviceGetPCIBusId(&pci[0], C.int(len(pci)), C.CUdevice(device))); err != nil {
		return info, err
	}
	info.PCI = strings.ToLower(C.GoString(&pci[0]))
	return info, nil
}

// card is a card with a count of resets of its primary context.
type card struct {
	device cu.Device
	info   gpu.Info

	mu sync.Mutex
	// resets is the number of resets. A reset destroys all contexts that were opened before it, with their contents. Closing such a context
	// must not reset contexts opened since.
	resets int
}

func (c *card) Info() gpu.Info { return c.info }

func (c *card) Open() (gpu.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	handle, err := c.device.RetainPrimaryCtx()
	if err != nil {
		return nil, check("cuDevicePrimaryCtxRetain", err)
	}
	return &context{card: c, handle: handle, opened: c.resets, modules: modules{find: kernels.Module}}, nil
}

// release releases a context. With reset it first destroys the primary context, unless closing another one has already done so.
func (c *card) release(opened int, reset bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var failed error
	if reset && opened == c.resets {
		failed = check("cuDevicePrimaryCtxReset", c.device.ResetPrimaryCtx())
		c.resets++
	}
	return errors.Join(failed, check("cuDevicePrimaryCtxRelease", c.device.ReleasePrimaryCtx()))
}

// alive reports whether a context's state on the card has not been destroyed by a reset.
func (c *card) alive(opened int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return opened == c.resets
}
