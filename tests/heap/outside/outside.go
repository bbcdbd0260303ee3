// A Go program as others write them: goroutines that allocate, collections, memory of C, maps of pages, child processes
// also in a user namespace of their own. It prints checksums that depend on contents alone. Built with cgo, for a library
// can only be preloaded into a dynamic program.
package main

/*
#include <stdlib.h>
#include <string.h>
*/
import "C"

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"unsafe"
)

type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	x := uint64(*r)
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb
	return x ^ (x >> 31)
}

func fill(b []byte, seed uint64) {
	for i := range b {
		b[i] = byte(seed + uint64(i)*31)
	}
}

func check(b []byte, seed uint64, what string) uint64 {
	sum := uint64(len(b))
	for i := range b {
		if b[i] != byte(seed+uint64(i)*31) {
			fmt.Printf("wrong %s at %d of %d\n", what, i, len(b))
			os.Exit(1)
		}
		sum = sum*1099511628211 + uint64(b[i])
	}
	return sum
}

func fresh(n int, what string) []byte {
	b := make([]byte, n)
	for i := range b {
		if b[i] != 0 {
			fmt.Printf("wrong %s: new memory is not zero at %d of %d\n", what, i, n)
			os.Exit(1)
		}
	}
	return b
}

// Goroutines that keep some of their slices in a map and drop the others.
func parallel() uint64 {
	sums := make([]uint64, 8)
	var group sync.WaitGroup
	for g := range sums {
		group.Add(1)
		go func() {
			defer group.Done()
			r := random(g)
			kept := map[uint64][]byte{}
			for i := 0; i < 120; i++ {
				n := int(r.next() % 4096)
				if i%8 == 0 {
					n = int(r.next() % (1 << 20))
				}
				b := fresh(n, "slice")
				key := r.next() % 16
				fill(b, key)
				if old, there := kept[key]; there {
					sums[g] += check(old, key, "kept slice")
				}
				kept[key] = b
			}
			for key, b := range kept {
				sums[g] += check(b, key, "last slice")
			}
		}()
	}
	group.Wait()
	var total uint64
	for _, s := range sums {
		total += s
	}
	return total
}

func collections() uint64 {
	var total uint64
	for round := 0; round < 4; round++ {
		big := fresh(24<<20, "big slice")
		fill(big, uint64(round))
		total += parallel()
		total += check(big, uint64(round), "big slice")
		big = nil
		runtime.GC()
		if round%2 == 0 {
			debug.FreeOSMemory()
		}
	}
	return total
}

// Memory of C is zerohop's to watch: the collector knows nothing of it.
func memoryOfC() uint64 {
	var total uint64
	r := random(5)
	for i := 0; i < 40; i++ {
		n := int(r.next()%(3<<20)) + 1
		p := C.malloc(C.size_t(n))
		fill(unsafe.Slice((*byte)(p), n), uint64(i))
		p = C.realloc(p, C.size_t(n+n/2))
		total += check(unsafe.Slice((*byte)(p), n), uint64(i), "C block")
		C.free(p)
	}
	return total
}

func pages() uint64 {
	var total uint64
	for i := 0; i < 20; i++ {
		b, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		if err != nil {
			fmt.Println("mmap:", err)
			os.Exit(1)
		}
		fill(b, uint64(i))
		total += check(b, uint64(i), "page")
		if err := syscall.Munmap(b); err != nil {
			fmt.Println("munmap:", err)
			os.Exit(1)
		}
	}
	return total
}

// What a child says that gets several MiB through a pipe.
func child(attributes *syscall.SysProcAttr) string {
	self, err := os.Executable()
	if err != nil {
		return err.Error()
	}
	data := make([]byte, 3<<20)
	fill(data, 9)
	command := exec.Command(self, "child")
	command.SysProcAttr = attributes
	command.Stdin = bytes.NewReader(data)
	said, err := command.CombinedOutput()
	if err != nil {
		return "no child: " + err.Error() + string(said)
	}
	check(data, 9, "data of the parent")
	return string(said)
}

func main() {
	if len(os.Args) > 1 {
		data, _ := io.ReadAll(os.Stdin)
		fmt.Printf("child %016x %016x\n", check(data, 9, "data of the child"), parallel())
		return
	}
	fmt.Printf("collections %016x\n", collections())
	fmt.Printf("memory of C %016x\n", memoryOfC())
	fmt.Printf("pages %016x\n", pages())
	fmt.Print(child(nil))
	namespace := &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	fmt.Print("user namespace: ", child(namespace))
	fmt.Printf("after children %016x\n", parallel())
}
