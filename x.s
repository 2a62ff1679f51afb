000000000000aca0 <double pin<terrain::frc::over<spolia::native::thin_family>::At<long>, terrain::frc::over<spolia::native::thin_family>::Priv<long> >(std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)>:
    aca0:	push   %r15
    aca2:	push   %r14
    aca4:	push   %r13
    aca6:	push   %r12
    aca8:	push   %rbp
    aca9:	push   %rbx
    acaa:	mov    %rdi,%rbp
    acad:	sub    $0x38,%rsp
    acb1:	movq   $0x0,(%rsp)
    acb9:	mov    0x3e940(%rip),%rax        # 49600 <spolia::native::counted::thin_kind<long>::number()::given>
    acc0:	test   %rax,%rax
    acc3:	je     b259 <0x5b9>
    acc9:	mov    $0xffffffffffffffc0,%r13
    acd0:	mov    (%rax),%r12d
    acd3:	mov    %fs:0x0(%r13),%rax
    acd8:	test   %rax,%rax
    acdb:	je     b202 <0x562>
    ace1:	mov    (%rax),%rbx
    ace4:	test   %rbx,%rbx
    ace7:	je     b202 <0x562>
    aced:	mov    (%rbx),%rdx
    acf0:	prefetchw (%rdx)
    acf3:	decq   0x8(%rax)
    acf7:	mov    %rdx,(%rax)
    acfa:	mov    %r12d,-0x4(%rbx)
    acfe:	mov    $0xffffffffffffffb8,%r12
    ad05:	movq   $0x1,(%rbx)
    ad0c:	movl   $0x1,-0x8(%rbx)
    ad13:	mov    %fs:(%r12),%r14
    ad18:	test   %r14,%r14
    ad1b:	je     b26a <0x5ca>
    ad21:	mov    0x200(%r14),%rax
    ad28:	test   %rax,%rax
    ad2b:	je     aefc <0x25c>
    ad31:	mov    (%rax),%eax
    ad33:	cmp    $0xfe,%eax
    ad38:	je     aefc <0x25c>
    ad3e:	xchg   %rbx,(%rsp)
    ad42:	test   %rbx,%rbx
    ad45:	je     ad52 <0xb2>
    ad47:	mov    %rbx,%rsi
    ad4a:	mov    %r14,%rdi
    ad4d:	call   6740 <spolia::native::counted::location<spolia::native::thin_ptr<terrain::cds::HashMapCPC<long, long, thin_at, thin_pr, 64ul, 8192ul>::Cell>, spolia::native::thin_units<terrain::cds::HashMapCPC<long, long, thin_at, thin_pr, 64ul, 8192ul>::Cell> >::give_up(spolia::native::counted::member&, unsigned long) [clone .part.0]>
    ad52:	movq   $0x0,0x8(%rsp)
    ad5b:	mov    0x3e89e(%rip),%rax        # 49600 <spolia::native::counted::thin_kind<long>::number()::given>
    ad62:	test   %rax,%rax
    ad65:	je     b248 <0x5a8>
    ad6b:	mov    (%rax),%r14d
    ad6e:	mov    %fs:0x0(%r13),%rax
    ad73:	test   %rax,%rax
    ad76:	je     b1f3 <0x553>
    ad7c:	mov    (%rax),%rbx
    ad7f:	test   %rbx,%rbx
    ad82:	je     b1f3 <0x553>
    ad88:	mov    (%rbx),%rdx
    ad8b:	prefetchw (%rdx)
    ad8e:	decq   0x8(%rax)
    ad92:	mov    %rdx,(%rax)
    ad95:	movq   $0x2,(%rbx)
    ad9c:	movl   $0x1,-0x8(%rbx)
    ada3:	mov    %r14d,-0x4(%rbx)
    ada7:	mov    %fs:(%r12),%r12
    adac:	test   %r12,%r12
    adaf:	je     b23b <0x59b>
    adb5:	mov    0x200(%r12),%rax
    adbd:	test   %rax,%rax
    adc0:	je     aeea <0x24a>
    adc6:	mov    (%rax),%eax
    adc8:	cmp    $0xfe,%eax
    adcd:	je     aeea <0x24a>
    add3:	xchg   %rbx,0x8(%rsp)
    add8:	test   %rbx,%rbx
    addb:	je     ade8 <0x148>
    addd:	mov    %rbx,%rsi
    ade0:	mov    %r12,%rdi
    ade3:	call   6740 <spolia::native::counted::location<spolia::native::thin_ptr<terrain::cds::HashMapCPC<long, long, thin_at, thin_pr, 64ul, 8192ul>::Cell>, spolia::native::thin_units<terrain::cds::HashMapCPC<long, long, thin_at, thin_pr, 64ul, 8192ul>::Cell> >::give_up(spolia::native::counted::member&, unsigned long) [clone .part.0]>
    ade8:	mov    0x8(%rbp),%rsi
    adec:	mov    0x0(%rbp),%rdi
    adf0:	lea    0x332e3(%rip),%rdx        # 3e0da <_IO_stdin_used+0xda>
    adf7:	call   6b80 <std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::compare(char const*) const [clone .isra.0]>
    adfc:	test   %eax,%eax
    adfe:	jne    b100 <0x460>
    ae04:	mov    %rsp,%rbp
    ae07:	lea    0x10(%rsp),%rdi
    ae0c:	mov    %rbp,%rsi
    ae0f:	call   ac10 <terrain::frc::over<spolia::native::thin_family>::Priv<long>::Priv(terrain::frc::over<spolia::native::thin_family>::At<long>&)>
    ae14:	lea    0x20(%rsp),%r13
    ae19:	mov    $0x3,%edi
    ae1e:	mov    $0x16e360,%ebx
    ae23:	mov    %r13,%rsi
    ae26:	lea    0x8(%rsp),%r12
    ae2b:	call   42f0 <clock_gettime@plt>
    ae30:	vmovsd 0x33e68(%rip),%xmm7        # 3eca0 <typeinfo name for terrain::cds::HashMapCPC<long, long, terrain::frc::AtomicPointer, terrain::frc::PrivatePointer, 64ul, 8192ul>::Segment+0x60>
    ae38:	vxorpd %xmm6,%xmm6,%xmm6
    ae3c:	vcvtsi2sdq 0x28(%rsp),%xmm6,%xmm0
    ae43:	vmovsd %xmm0,%xmm0,%xmm1
    ae47:	vcvtsi2sdq 0x20(%rsp),%xmm6,%xmm0
    ae4e:	vfmadd132sd %xmm7,%xmm0,%xmm1
    ae53:	vmovq  %xmm7,%r15
    ae58:	vmovq  %xmm1,%r14
    ae5d:	jmp    aec8 <0x228>
    ae5f:	nop
    ae60:	mov    (%rsp),%rdx
    ae64:	xor    $0x8,%rdi
    ae68:	test   %rdx,%rdx
    ae6b:	je     afe0 <0x340>
    ae71:	mov    %rdx,(%rdi)
    ae74:	mov    (%rsp),%rax
    ae78:	cmp    %rax,%rdx
    ae7b:	jne    b040 <0x3a0>
    ae81:	mov    %rdi,0x18(%rsp)
    ae86:	mov    %rdx,0x10(%rsp)
    ae8b:	mov    0x18(%rsp),%rdi
    ae90:	test   $0x1,%dil
    ae94:	jne    b01d <0x37d>
    ae9a:	mov    0x8(%rsp),%rdx
    ae9f:	xor    $0x8,%rdi
    aea3:	test   %rdx,%rdx
    aea6:	je     af10 <0x270>
    aea8:	mov    %rdx,(%rdi)
    aeab:	mov    0x8(%rsp),%rax
    aeb0:	cmp    %rax,%rdx
    aeb3:	jne    b050 <0x3b0>
    aeb9:	mov    %rdi,0x18(%rsp)
    aebe:	mov    %rdx,0x10(%rsp)
    aec3:	dec    %rbx
    aec6:	je     af47 <0x2a7>
    aec8:	mov    0x18(%rsp),%rdi
    aecd:	test   $0x1,%dil
    aed1:	je     ae60 <0x1c0>
    aed3:	cmp    $0x1,%rdi
    aed7:	je     b0bf <0x41f>
    aedd:	mov    %rbp,%rsi
    aee0:	call   a520 <spolia::native::counted::grip::move_anew(unsigned long, spolia::native::atomic<unsigned long> const&)>
    aee5:	mov    %rax,%rdi
    aee8:	jmp    ae81 <0x1e1>
    aeea:	lea    0x200(%r12),%rdi
    aef2:	call   9f30 <spolia::native::counted::unit_log::grow()>
    aef7:	jmp    add3 <0x133>
    aefc:	lea    0x200(%r14),%rdi
    af03:	call   9f30 <spolia::native::counted::unit_log::grow()>
    af08:	jmp    ad3e <0x9e>
    af0d:	nopl   (%rax)
    af10:	mov    0x18(%rsp),%rdi
    af15:	movq   $0x1,0x18(%rsp)
    af1e:	test   $0x11,%dil
    af22:	jne    b070 <0x3d0>
    af28:	and    $0xfffffffffffffff0,%rdi
    af2c:	xor    %edx,%edx
    af2e:	movq   $0x0,(%rdi)
    af35:	movq   $0x0,0x8(%rdi)
    af3d:	mov    %rdx,0x10(%rsp)
    af42:	dec    %rbx
    af45:	jne    aec8 <0x228>
    af47:	mov    0x18(%rsp),%rdi
    af4c:	cmp    $0x1,%rdi
    af50:	je     af6f <0x2cf>
    af52:	test   $0x11,%dil
    af56:	jne    b277 <0x5d7>
    af5c:	and    $0xfffffffffffffff0,%rdi
    af60:	movq   $0x0,(%rdi)
    af67:	movq   $0x0,0x8(%rdi)
    af6f:	mov    %r13,%rsi
    af72:	mov    $0x3,%edi
    af77:	call   42f0 <clock_gettime@plt>
    af7c:	vxorpd %xmm2,%xmm2,%xmm2
    af80:	vmovq  %r15,%xmm3
    af85:	vmovq  %r14,%xmm4
    af8a:	vcvtsi2sdq 0x28(%rsp),%xmm2,%xmm0
    af91:	vcvtsi2sdq 0x20(%rsp),%xmm2,%xmm1
    af98:	vfmadd132sd %xmm3,%xmm1,%xmm0
    af9d:	mov    %r12,%rdi
    afa0:	vsubsd %xmm4,%xmm0,%xmm0
    afa4:	vdivsd 0x33cfc(%rip),%xmm0,%xmm0        # 3eca8 <typeinfo name for terrain::cds::HashMapCPC<long, long, terrain::frc::AtomicPointer, terrain::frc::PrivatePointer, 64ul, 8192ul>::Segment+0x68>
    afac:	vmulsd 0x33cfc(%rip),%xmm0,%xmm5        # 3ecb0 <typeinfo name for terrain::cds::HashMapCPC<long, long, terrain::frc::AtomicPointer, terrain::frc::PrivatePointer, 64ul, 8192ul>::Segment+0x70>
    afb4:	vmovq  %xmm5,%rbx
    afb9:	call   ab80 <spolia::native::counted::location<spolia::native::thin_ptr<long>, spolia::native::thin_units<long> >::~location()>
    afbe:	mov    %rbp,%rdi
    afc1:	call   ab80 <spolia::native::counted::location<spolia::native::thin_ptr<long>, spolia::native::thin_units<long> >::~location()>
    afc6:	add    $0x38,%rsp
    afca:	vmovq  %rbx,%xmm0
    afcf:	pop    %rbx
    afd0:	pop    %rbp
    afd1:	pop    %r12
    afd3:	pop    %r13
    afd5:	pop    %r14
    afd7:	pop    %r15
    afd9:	ret
    afda:	nopw   0x0(%rax,%rax,1)
    afe0:	mov    0x18(%rsp),%rdi
    afe5:	movq   $0x1,0x18(%rsp)
    afee:	test   $0x11,%dil
    aff2:	jne    b060 <0x3c0>
    aff4:	and    $0xfffffffffffffff0,%rdi
    aff8:	xor    %edx,%edx
    affa:	movq   $0x0,(%rdi)
    b001:	movq   $0x0,0x8(%rdi)
    b009:	mov    %rdx,0x10(%rsp)
    b00e:	mov    0x18(%rsp),%rdi
    b013:	test   $0x1,%dil
    b017:	je     ae9a <0x1fa>
    b01d:	cmp    $0x1,%rdi
    b021:	je     b07c <0x3dc>
    b023:	mov    %r12,%rsi
    b026:	call   a520 <spolia::native::counted::grip::move_anew(unsigned long, spolia::native::atomic<unsigned long> const&)>
    b02b:	mov    %rax,%rdi
    b02e:	jmp    aeb9 <0x219>
    b033:	data16 cs nopw 0x0(%rax,%rax,1)
    b03e:	xchg   %ax,%ax
    b040:	mov    %rax,%rdx
    b043:	jmp    ae68 <0x1c8>
    b048:	nopl   0x0(%rax,%rax,1)
    b050:	mov    %rax,%rdx
    b053:	jmp    aea3 <0x203>
    b058:	nopl   0x0(%rax,%rax,1)
    b060:	call   a3c0 <spolia::native::counted::grip::let_go_of_other(unsigned long)>
    b065:	xor    %edx,%edx
    b067:	jmp    b009 <0x369>
    b069:	nopl   0x0(%rax)
    b070:	call   a3c0 <spolia::native::counted::grip::let_go_of_other(unsigned long)>
    b075:	xor    %edx,%edx
    b077:	jmp    af3d <0x29d>
    b07c:	mov    $0xffffffffffffff88,%rax
    b083:	mov    %fs:(%rax),%rax
    b087:	mov    0x20(%rax),%rdx
    b08b:	lea    0x20(%rax),%rcx
    b08f:	test   %rdx,%rdx
    b092:	jne    b211 <0x571>
    b098:	mov    0x8(%rsp),%rdx
    b09d:	test   %rdx,%rdx
    b0a0:	je     b1e4 <0x544>
    b0a6:	mov    %rdx,(%rcx)
    b0a9:	mov    0x8(%rsp),%rsi
    b0ae:	cmp    %rsi,%rdx
    b0b1:	jne    b233 <0x593>
    b0b7:	mov    %rcx,%rdi
    b0ba:	jmp    aeb9 <0x219>
    b0bf:	mov    $0xffffffffffffff88,%rax
    b0c6:	mov    %fs:(%rax),%rax
    b0ca:	mov    0x20(%rax),%rdx
    b0ce:	lea    0x20(%rax),%rcx
    b0d2:	test   %rdx,%rdx
    b0d5:	jne    b21e <0x57e>
    b0db:	mov    (%rsp),%rdx
    b0df:	test   %rdx,%rdx
    b0e2:	je     b1d5 <0x535>
    b0e8:	mov    %rdx,(%rcx)
    b0eb:	mov    (%rsp),%rsi
    b0ef:	cmp    %rsi,%rdx
    b0f2:	jne    b22b <0x58b>
    b0f8:	mov    %rcx,%rdi
    b0fb:	jmp    ae81 <0x1e1>
    b100:	lea    0x20(%rsp),%r13
    b105:	mov    $0x3,%edi
    b10a:	mov    $0x2dc6c0,%ebx
    b10f:	mov    %rsp,%rbp
    b112:	mov    %r13,%rsi
    b115:	call   42f0 <clock_gettime@plt>
    b11a:	vmovsd 0x33b7e(%rip),%xmm4        # 3eca0 <typeinfo name for terrain::cds::HashMapCPC<long, long, terrain::frc::AtomicPointer, terrain::frc::PrivatePointer, 64ul, 8192ul>::Segment+0x60>
    b122:	vxorpd %xmm3,%xmm3,%xmm3
    b126:	vcvtsi2sdq 0x28(%rsp),%xmm3,%xmm0
    b12d:	vmovsd %xmm0,%xmm0,%xmm1
    b131:	vcvtsi2sdq 0x20(%rsp),%xmm3,%xmm0
    b138:	mov    $0xffffffffffffff88,%r12
    b13f:	vfmadd132sd %xmm4,%xmm0,%xmm1
    b144:	vmovq  %xmm4,%r15
    b149:	vmovq  %xmm1,%r14
    b14e:	jmp    b168 <0x4c8>
    b150:	and    $0xfffffffffffffff0,%rdi
    b154:	movq   $0x0,(%rdi)
    b15b:	movq   $0x0,0x8(%rdi)
    b163:	dec    %rbx
    b166:	je     b1a5 <0x505>
    b168:	mov    %fs:(%r12),%rcx
    b16d:	mov    0x20(%rcx),%rax
    b171:	lea    0x20(%rcx),%rdi
    b175:	test   %rax,%rax
    b178:	jne    b1c0 <0x520>
    b17a:	mov    (%rsp),%rax
    b17e:	test   %rax,%rax
    b181:	je     b1b0 <0x510>
    b183:	mov    %rax,(%rdi)
    b186:	mov    (%rsp),%rdx
    b18a:	cmp    %rdx,%rax
    b18d:	jne    b1d0 <0x530>
    b18f:	cmp    $0x1,%rdi
    b193:	je     b163 <0x4c3>
    b195:	test   $0x11,%dil
    b199:	je     b150 <0x4b0>
    b19b:	call   a3c0 <spolia::native::counted::grip::let_go_of_other(unsigned long)>
    b1a0:	dec    %rbx
    b1a3:	jne    b168 <0x4c8>
    b1a5:	lea    0x8(%rsp),%r12
    b1aa:	jmp    af6f <0x2cf>
    b1af:	nop
    b1b0:	movq   $0x0,0x20(%rcx)
    b1b8:	jmp    b163 <0x4c3>
    b1ba:	nopw   0x0(%rax,%rax,1)
    b1c0:	mov    %rbp,%rdi
    b1c3:	call   a090 <spolia::native::counted::grip::begin_anew(spolia::native::atomic<unsigned long> const&)>
    b1c8:	mov    %rax,%rdi
    b1cb:	jmp    b18f <0x4ef>
    b1cd:	nopl   (%rax)
    b1d0:	mov    %rdx,%rax
    b1d3:	jmp    b17e <0x4de>
    b1d5:	xor    %edx,%edx
    b1d7:	movq   $0x0,0x20(%rax)
    b1df:	jmp    ae81 <0x1e1>
    b1e4:	xor    %edx,%edx
    b1e6:	movq   $0x0,0x20(%rax)
    b1ee:	jmp    aeb9 <0x219>
    b1f3:	xor    %edi,%edi
    b1f5:	call   2bdf0 <spolia::core::take_block(unsigned int)>
    b1fa:	mov    %rax,%rbx
    b1fd:	jmp    ad95 <0xf5>
    b202:	xor    %edi,%edi
    b204:	call   2bdf0 <spolia::core::take_block(unsigned int)>
    b209:	mov    %rax,%rbx
    b20c:	jmp    acfa <0x5a>
    b211:	mov    %r12,%rdi
    b214:	call   a090 <spolia::native::counted::grip::begin_anew(spolia::native::atomic<unsigned long> const&)>
    b219:	jmp    b02b <0x38b>
    b21e:	mov    %rbp,%rdi
    b221:	call   a090 <spolia::native::counted::grip::begin_anew(spolia::native::atomic<unsigned long> const&)>
    b226:	jmp    aee5 <0x245>
    b22b:	mov    %rsi,%rdx
    b22e:	jmp    b0df <0x43f>
    b233:	mov    %rsi,%rdx
    b236:	jmp    b09d <0x3fd>
    b23b:	call   1c210 <spolia::core::join_counted()>
    b240:	mov    %rax,%r12
    b243:	jmp    adb5 <0x115>
    b248:	lea    0x3e3b1(%rip),%rdi        # 49600 <spolia::native::counted::thin_kind<long>::number()::given>
    b24f:	call   9880 <unsigned int& spolia::native::made_once<unsigned int>::made<spolia::native::counted::thin_kind<long>::number()::{lambda(void*)#1}>(spolia::native::counted::thin_kind<long>::number()::{lambda(void*)#1}&) [clone .isra.0]>
    b254:	jmp    ad6b <0xcb>
    b259:	lea    0x3e3a0(%rip),%rdi        # 49600 <spolia::native::counted::thin_kind<long>::number()::given>
    b260:	call   9880 <unsigned int& spolia::native::made_once<unsigned int>::made<spolia::native::counted::thin_kind<long>::number()::{lambda(void*)#1}>(spolia::native::counted::thin_kind<long>::number()::{lambda(void*)#1}&) [clone .isra.0]>
    b265:	jmp    acc9 <0x29>
    b26a:	call   1c210 <spolia::core::join_counted()>
    b26f:	mov    %rax,%r14
    b272:	jmp    ad21 <0x81>
    b277:	call   a3c0 <spolia::native::counted::grip::let_go_of_other(unsigned long)>
    b27c:	jmp    af6f <0x2cf>
    b281:	mov    %rax,%rbx
    b284:	jmp    b29f <0x5ff>
    b286:	mov    %rax,%rbx
    b289:	lea    0x8(%rsp),%r12
    b28e:	jmp    b2d5 <0x635>
    b290:	lea    -0x8(%rbx),%rdi
    b294:	vzeroupper
    b297:	mov    %rbp,%rbx
    b29a:	call   a380 <spolia::native::counted::release(spolia::native::counted::head*)>
    b29f:	lea    0x8(%rsp),%rdi
    b2a4:	vzeroupper
    b2a7:	mov    %rsp,%rbp
    b2aa:	call   ab80 <spolia::native::counted::location<spolia::native::thin_ptr<long>, spolia::native::thin_units<long> >::~location()>
    b2af:	jmp    b2e0 <0x640>
    b2b1:	mov    0x18(%rsp),%rdi
    b2b6:	cmp    $0x1,%rdi
    b2ba:	je     b2d5 <0x635>
    b2bc:	test   $0x11,%dil
    b2c0:	jne    b326 <0x686>
    b2c2:	and    $0xfffffffffffffff0,%rdi
    b2c6:	movq   $0x0,(%rdi)
    b2cd:	movq   $0x0,0x8(%rdi)
    b2d5:	mov    %r12,%rdi
    b2d8:	vzeroupper
    b2db:	call   ab80 <spolia::native::counted::location<spolia::native::thin_ptr<long>, spolia::native::thin_units<long> >::~location()>
    b2e0:	mov    %rbp,%rdi
    b2e3:	call   ab80 <spolia::native::counted::location<spolia::native::thin_ptr<long>, spolia::native::thin_units<long> >::~location()>
    b2e8:	mov    %rbx,%rdi
    b2eb:	call   4610 <_Unwind_Resume@plt>
    b2f0:	mov    %rax,%rbp
    b2f3:	jmp    b290 <0x5f0>
    b2f5:	mov    %rax,%rbx
    b2f8:	jmp    b2b1 <0x611>
    b2fa:	mov    %rax,%rbp
    b2fd:	jmp    b304 <0x664>
    b2ff:	mov    %rax,%rbx
    b302:	jmp    b313 <0x673>
    b304:	lea    -0x8(%rbx),%rdi
    b308:	vzeroupper
    b30b:	mov    %rbp,%rbx
    b30e:	call   a380 <spolia::native::counted::release(spolia::native::counted::head*)>
    b313:	mov    %rsp,%rdi
    b316:	vzeroupper
    b319:	call   ab80 <spolia::native::counted::location<spolia::native::thin_ptr<long>, spolia::native::thin_units<long> >::~location()>
    b31e:	mov    %rbx,%rdi
    b321:	call   4610 <_Unwind_Resume@plt>
    b326:	vzeroupper
    b329:	call   a3c0 <spolia::native::counted::grip::let_go_of_other(unsigned long)>
    b32e:	jmp    b2d5 <0x635>

