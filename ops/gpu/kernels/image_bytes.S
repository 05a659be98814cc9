/* The fatbin, as read-only data. The driver wants it on a boundary of 8 bytes. */
        .section .rodata
        .balign 64
        .global tutti_kernel_image
        .hidden tutti_kernel_image
        .type tutti_kernel_image, %object
tutti_kernel_image:
        .incbin KERNEL_IMAGE_FILE
        .global tutti_kernel_image_end
        .hidden tutti_kernel_image_end
tutti_kernel_image_end:
        .byte 0
        .size tutti_kernel_image, . - tutti_kernel_image
        .section .note.GNU-stack, "", %progbits
